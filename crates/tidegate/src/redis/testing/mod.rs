//! Real servers for tests, on free local ports. They stop when they are dropped.

#![allow(dead_code, reason = "not every test needs all of it")]

mod cluster;
mod process;
mod sentinel;
mod slow_proxy;

use std::time::Duration;

use tidegate_testing::redis_server;
use tokio::time::{Instant, sleep};

pub(super) use cluster::RedisCluster;
pub(super) use process::{RedisProcess, cli};
pub(super) use redis_server::{RedisServer, TempDir, free_port};
pub(super) use sentinel::{Passwords, RedisSentinels};
pub(super) use slow_proxy::SlowProxy;

/// Long enough for a busy machine.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// Waits until a condition holds.
#[track_caller]
pub(super) fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let here = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !condition().await {
            assert!(Instant::now() < deadline, "{here}: timed out: {what}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}
