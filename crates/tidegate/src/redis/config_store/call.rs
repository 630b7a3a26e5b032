//! Sends commands to shards, on the connections of the counters.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::task::JoinSet;

use super::error::{runtime_gone, send_error, timed_out};
use super::shard::{Shard, ShardKey};
use super::{ConfigScript, RedisConfigStore};
use crate::config::ConfigStoreError;
use crate::redis::connect::CONFIG_SCRIPT_INDEX;
use crate::redis::connection::{PipelinePurpose, PipelineTerms, SendError, SlotCommand};
use crate::redis::deadline::Elapsed;
use crate::redis::topology::{KeyLocation, KeyMobility, ServerId};

/// The least timeout of a call.
const CALL_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// How long after its timeout a call ends even if the runtime of the store is not driven. Otherwise the error of the
/// connection, which says more, comes first.
const RUNTIME_MARGIN: Duration = Duration::from_millis(100);

/// A command for a shard.
pub(super) struct ShardCall {
    pub shard: Shard,
    pub command: Cmd,
}

/// The commands for one server, with their positions among all commands.
struct ServerCalls {
    server: ServerId,
    positions: Vec<usize>,
    commands: Vec<SlotCommand>,
}

type ServerReplies = (Vec<usize>, Vec<Result<Value, SendError>>);

impl RedisConfigStore {
    /// A call of a script on these keys of a shard, without its arguments.
    pub(super) fn script_call(&self, script: ConfigScript, shard: Shard, keys: &[ShardKey]) -> ShardCall {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.inner.context.servers.sha(CONFIG_SCRIPT_INDEX + script as usize)).arg(keys.len());
        for key in keys {
            command.arg(shard.key_name(self.namespace(), *key));
        }
        ShardCall { shard, command }
    }

    pub(super) async fn send_one(&self, call: ShardCall) -> Result<Value, ConfigStoreError> {
        Ok(self.send_all(vec![call]).await?.pop().unwrap_or(Value::Nil))
    }

    /// Sends calls to all their servers at the same time, and returns the replies in the order of the calls. If one fails,
    /// returns the error of the first that failed.
    pub(super) async fn send_all(&self, calls: Vec<ShardCall>) -> Result<Vec<Value>, ConfigStoreError> {
        let timeout = self.timeout();
        let shards: Vec<Shard> = calls.iter().map(|call| call.shard).collect();
        let located: Vec<KeyLocation> = shards.iter().map(|shard| self.locate(*shard)).collect();
        let terms = PipelineTerms::new(timeout, PipelinePurpose::Config);
        // The connections belong to the store's runtime, and the caller may be on another. Dropping the set aborts the
        // tasks, so that abandoned calls do not pile up.
        let mut pipelines: JoinSet<ServerReplies> = JoinSet::new();
        for ServerCalls { server, positions, commands } in by_server(calls, &located) {
            let servers = Arc::clone(&self.inner.context.servers);
            let sending =
                async move { (positions, servers.send_with(server, commands, terms).await.results) };
            pipelines.spawn_on(sending, &self.inner.runtime);
        }
        let mut replies: Vec<Option<Result<Value, SendError>>> = shards.iter().map(|_| None).collect();
        while !pipelines.is_empty() {
            let joining =
                self.inner.deadlines.timeout_at(terms.deadline + RUNTIME_MARGIN, pipelines.join_next());
            match joining.await {
                Ok(Some(Ok((positions, results)))) => {
                    positions.into_iter().zip(results).for_each(|(at, result)| replies[at] = Some(result));
                }
                Ok(Some(Err(_)) | None) => return Err(runtime_gone()),
                Err(Elapsed) => return Err(timed_out(timeout)),
            }
        }
        let reply = |(at, reply): (usize, Option<Result<Value, SendError>>)| {
            let reply = reply.unwrap_or(Err(SendError::NoReply));
            let address = || self.inner.context.servers.address(located[at].server);
            reply.map_err(|error| send_error(&error, shards[at], address(), self.namespace(), timeout))
        };
        replies.into_iter().enumerate().map(reply).collect()
    }

    /// Where a shard is. It never moves while its server is away: another server does not have its data.
    pub(super) fn locate(&self, shard: Shard) -> KeyLocation {
        self.inner.context.servers.locate(shard.tag().as_bytes(), KeyMobility::Fixed)
    }

    fn timeout(&self) -> Duration {
        self.inner.settings.timeout.max(CALL_TIMEOUT_MIN)
    }
}

fn by_server(calls: Vec<ShardCall>, located: &[KeyLocation]) -> Vec<ServerCalls> {
    let mut grouped: Vec<ServerCalls> = Vec::new();
    for (position, (call, location)) in calls.into_iter().zip(located).enumerate() {
        let command = SlotCommand { slot: location.slot, command: call.command };
        match grouped.iter_mut().find(|calls| calls.server == location.server) {
            Some(calls) => {
                calls.positions.push(position);
                calls.commands.push(command);
            }
            None => grouped.push(ServerCalls {
                server: location.server,
                positions: vec![position],
                commands: vec![command],
            }),
        }
    }
    grouped
}
