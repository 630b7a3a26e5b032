//! Runs the examples.

#![allow(dead_code, unused_imports, reason = "an example has a main function, which its test does not call")]

#[cfg(feature = "redis")]
#[path = "../../examples/fleet.rs"]
mod fleet;
#[path = "../../examples/limiter.rs"]
mod limiter;
#[cfg(feature = "redis")]
#[path = "../../examples/lock.rs"]
mod lock;
#[cfg(feature = "rules")]
#[path = "../../examples/rules_reload.rs"]
mod rules_reload;

#[test]
fn a_limiter_in_memory() {
    limiter::run().unwrap();
}

#[cfg(feature = "rules")]
#[test]
fn rules_that_are_replaced() {
    rules_reload::run().unwrap();
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_fleet_on_redis() {
    let server = tidegate_testing::redis_server::RedisServer::start(&[]);
    assert_eq!(fleet::run(&server.url()).await.unwrap(), 30);
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_lock_on_redis() {
    let server = tidegate_testing::redis_server::RedisServer::start(&[]);
    lock::run(&server.url()).await.unwrap();
}
