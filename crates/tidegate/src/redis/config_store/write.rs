//! Writes, in calls of bounded size.

use redis::Value;

use super::call::ShardCall;
use super::error::unexpected_reply;
use super::shard::{SHARDS, Shard, ShardKey};
use super::{ConfigScript, RedisConfigStore};
use crate::config::{
    ConfigStoreError, ConfigVersion, ConfigWrite, WriteCondition, WriteResult, check_writes,
};

/// Writes in one call of the script at most. Redis runs one script at a time, so decisions wait meanwhile: 64 writes took
/// 0.7 ms.
const CALL_WRITES_MAX: usize = 64;
/// No further write is added to a call after this many bytes of keys and values.
const CALL_BYTES_MAX: usize = 256 << 10;
/// About how many changes the log of each shard keeps. A reader that is further behind reads everything again.
const LOG_ENTRIES_MAX: usize = 100_000;

/// A call of the script, and the positions of its writes among all writes.
struct WriteCall {
    shard: Shard,
    positions: Vec<usize>,
}

impl RedisConfigStore {
    /// Does writes in rounds. A round has one call for each shard. The next call of a shard is not sent before the reply to
    /// the one before it: a cluster may redirect one of two calls, and then the later would come first.
    pub(super) async fn write_all(
        &self,
        writes: &[ConfigWrite],
    ) -> Result<Vec<WriteResult>, ConfigStoreError> {
        check_writes(writes)?;
        let mut by_shard: [Vec<usize>; SHARDS] = Default::default();
        for (position, write) in writes.iter().enumerate() {
            by_shard[Shard::of_key(&write.key).index()].push(position);
        }
        // Taken from the end.
        by_shard.iter_mut().for_each(|positions| positions.reverse());
        let mut results: Vec<Option<WriteResult>> = writes.iter().map(|_| None).collect();
        loop {
            let calls: Vec<WriteCall> = Shard::all()
                .map(|shard| WriteCall { shard, positions: take_call(&mut by_shard[shard.index()], writes) })
                .filter(|call| !call.positions.is_empty())
                .collect();
            if calls.is_empty() {
                break;
            }
            let commands = calls.iter().map(|call| self.write_command(call, writes)).collect();
            let replies = self.send_all(commands).await?;
            for (call, reply) in calls.iter().zip(&replies) {
                let parsed = parse_reply(reply).filter(|parsed| parsed.len() == call.positions.len());
                let parsed = parsed.ok_or_else(|| unexpected_reply(call.shard, reply))?;
                for (position, result) in call.positions.iter().zip(parsed) {
                    if let WriteResult::Written(version) = result {
                        self.record_version(version.get());
                    }
                    results[*position] = Some(result);
                }
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    fn write_command(&self, call: &WriteCall, writes: &[ConfigWrite]) -> ShardCall {
        let keys = [ShardKey::Values, ShardKey::Keys, ShardKey::Log, ShardKey::State];
        let mut shard_call = self.script_call(ConfigScript::Write, call.shard, &keys);
        let command = &mut shard_call.command;
        command.arg(call.shard.index()).arg(self.highest()).arg(LOG_ENTRIES_MAX);
        for position in &call.positions {
            let ConfigWrite { key, value, condition } = &writes[*position];
            command.arg(&**key);
            match condition {
                WriteCondition::Always => command.arg(""),
                WriteCondition::Absent => command.arg("-"),
                WriteCondition::Version(version) => command.arg(version.get()),
            };
            match value {
                Some(value) => command.arg("put").arg(&**value),
                None => command.arg("delete").arg(""),
            };
        }
        shard_call
    }
}

/// Takes the positions for one call from the end.
fn take_call(positions: &mut Vec<usize>, writes: &[ConfigWrite]) -> Vec<usize> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while taken.len() < CALL_WRITES_MAX
        && bytes < CALL_BYTES_MAX
        && let Some(position) = positions.pop()
    {
        let ConfigWrite { key, value, .. } = &writes[position];
        bytes += key.len() + value.as_ref().map_or(0, |value| value.len());
        taken.push(position);
    }
    taken
}

fn parse_reply(reply: &Value) -> Option<Vec<WriteResult>> {
    let Value::Array(results) = reply else { return None };
    let parse = |result: &Value| match result {
        Value::Nil => Some(WriteResult::Conflict(None)),
        Value::Int(written @ 1..) => Some(WriteResult::Written(ConfigVersion::new(written.unsigned_abs()))),
        Value::Int(current) => Some(WriteResult::Conflict(Some(ConfigVersion::new(current.unsigned_abs())))),
        _ => None,
    };
    results.iter().map(parse).collect()
}
