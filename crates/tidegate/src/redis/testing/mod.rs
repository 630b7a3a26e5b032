//! Real servers for tests: started on free ports of this machine, stopped when they are dropped.

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

/// Long enough for a machine that is busy with other things.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// Waits for something to be so.
#[track_caller]
pub(super) fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let here = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        while !is_so().await {
            assert!(Instant::now() < deadline, "{here}: waited in vain: {what}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}
