//! Waiting for replicas: `WAIT` after the commands of a pipeline.
//!
//! Redis notices that a `WAIT` has timed out when it has something else to do, or else ten times a second.
//! Until then it holds back all later commands of that connection. So this node does not rely on that timeout:
//!
//! - The replies to the commands do not wait for the reply to `WAIT`. If it is late, the pipeline is answered
//!   without it, as [`Replication::Short`], and a small command makes Redis look at its timeouts.
//! - After a `WAIT` that fell short, none is sent, and answers are marked. A background check with its own
//!   connection finds out when replicas acknowledge writes in time again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::{Pipeline, RedisError, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::client_config::ClientConfig;
use super::event::StoreEvent;
use super::handshake::handshake;
use super::jitter::JitterRange;
use super::multiplexed::Connection;
use super::probe::{ConnectTimeouts, probe_command};
use super::server::Server;

/// The fraction of the timeout to wait for replicas: a quarter.
const REPLICA_WAIT_DIVISOR: u32 = 4;
/// Between checks whether replicas acknowledge writes again.
const REPLICA_CHECK_PAUSE: JitterRange = JitterRange::from_millis(500..=1_000);
/// Between commands that make Redis look at the timeout of a `WAIT`.
const WAKE_PAUSE: Duration = Duration::from_millis(1);
/// How many of these commands are sent at most. Redis notices the timeout by itself after 100 ms.
const WAKE_COMMANDS_MAX: u32 = 100;

/// Whether enough replicas have the writes of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Replication {
    /// As many as the settings require, which may be none.
    #[default]
    Enough,
    /// Fewer, or unknown.
    Short,
}

/// Whether a server is asked to wait for replicas.
#[derive(Default)]
pub(crate) struct ReplicaWait {
    is_suspended: AtomicBool,
    /// Notified when it is suspended.
    suspended: Notify,
}

impl ReplicaWait {
    fn is_suspended(&self) -> bool {
        self.is_suspended.load(Relaxed)
    }
}

impl Server {
    /// Sends a pipeline, and waits for replicas if the settings say so.
    pub(super) async fn send_replicated(
        &self,
        connection: &Connection,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<(Vec<Value>, Replication), RedisError> {
        let Some(wait) = wait_command(&self.config) else {
            return Ok((connection.send(pipeline).await?, Replication::Enough));
        };
        let sent = match self.replica_wait.is_suspended() {
            true => (connection.send(pipeline).await?, Replication::Short),
            false => send_and_wait(&self.config, connection, pipeline, wait, deadline).await?,
        };
        if sent.1 == Replication::Short {
            self.config.replicas_short.fetch_add(1, Relaxed);
            self.suspend_replica_wait();
        }
        Ok(sent)
    }

    fn suspend_replica_wait(&self) {
        if !self.replica_wait.is_suspended.swap(true, Relaxed) {
            self.replica_wait.suspended.notify_one();
            self.config.emit(StoreEvent::ReplicasShort { address: self.address().to_string().into() });
        }
    }

    /// Checks in the background whether replicas acknowledge writes again. It never completes.
    pub(super) async fn check_replicas(&self) {
        loop {
            while !self.replica_wait.is_suspended() {
                self.replica_wait.suspended.notified().await;
            }
            sleep(REPLICA_CHECK_PAUSE.pick()).await;
            let at_most = ConnectTimeouts::Background.total(self.config.timeout);
            if let Ok(Some(Replication::Enough)) = timeout(at_most, self.try_replicas()).await {
                self.replica_wait.is_suspended.store(false, Relaxed);
                self.config.emit(StoreEvent::ReplicasBack { address: self.address().to_string().into() });
            }
        }
    }

    /// Writes on a new connection and waits for replicas. On the connection of decisions, a `WAIT` without
    /// replicas would hold back decisions.
    async fn try_replicas(&self) -> Option<Replication> {
        let address = self.address();
        let endpoint = self.config.endpoint(&address);
        let connection = Connection::open(&self.config, &endpoint).await.ok()?;
        handshake(&connection, &endpoint).await.ok()?;
        let mut pipeline = Pipeline::new();
        pipeline.add_command(probe_command(self));
        let wait = wait_command(&self.config)?;
        let deadline = Instant::now() + ConnectTimeouts::Background.total(self.config.timeout);
        let (replies, replication) =
            send_and_wait(&self.config, &connection, &pipeline, wait, deadline).await.ok()?;
        let is_written = !matches!(replies.first(), Some(Value::ServerError(_)));
        is_written.then_some(replication)
    }
}

/// None if the settings require no replica.
fn wait_command(config: &ClientConfig) -> Option<Pipeline> {
    let replicas = config.wait_replicas?;
    let wait_ms = wait_for(config).as_millis().max(1);
    let mut wait = Pipeline::new();
    wait.cmd("WAIT").arg(replicas.get()).arg(wait_ms.to_string());
    Some(wait)
}

/// How long to wait for replicas. Only a part of the timeout: commands that follow on the connection wait too.
fn wait_for(config: &ClientConfig) -> Duration {
    config.timeout / REPLICA_WAIT_DIVISOR
}

async fn send_and_wait(
    config: &ClientConfig,
    connection: &Connection,
    pipeline: &Pipeline,
    wait: Pipeline,
    deadline: Instant,
) -> Result<(Vec<Value>, Replication), RedisError> {
    let mut commands = pin!(connection.send(pipeline));
    let wait_connection = connection.clone();
    let mut waiting = Box::pin(async move { wait_connection.send(&wait).await });
    let mut waited = None;
    // The first poll sends, so `WAIT` is sent right after the commands.
    let values = poll_fn(|context| {
        let values = commands.as_mut().poll(context);
        if waited.is_none()
            && let std::task::Poll::Ready(reply) = waiting.as_mut().poll(context)
        {
            waited = Some(reply);
        }
        values
    })
    .await?;
    if waited.is_none() {
        let give_up_at = deadline.min(Instant::now() + wait_for(config));
        waited = timeout_at(give_up_at, &mut waiting).await.ok();
    }
    let Some(reply) = waited else {
        tokio::spawn(wake_until(connection.clone(), waiting));
        return Ok((values, Replication::Short));
    };
    let enough = config.wait_replicas.map_or(0, |replicas| i64::from(replicas.get()));
    let is_enough = matches!(reply?.first(), Some(Value::Int(received)) if *received >= enough);
    Ok((values, if is_enough { Replication::Enough } else { Replication::Short }))
}

/// Sends small commands until Redis has replied to a `WAIT` that is late.
async fn wake_until(connection: Connection, mut waiting: impl Future + Unpin) {
    let mut wake = Pipeline::new();
    // Any command would do. This one needs no further permission.
    wake.cmd("TIME");
    for _ in 0..WAKE_COMMANDS_MAX {
        // Its reply comes after that of `WAIT`.
        let woken = timeout(WAKE_PAUSE, connection.send(&wake));
        tokio::select! {
            biased;
            _ = &mut waiting => return,
            _ = woken => {}
        }
    }
}
