//! Servers that share a store: a real Redis, which is stopped and let go on while they are asked.

mod asking;
#[path = "../tool/mod.rs"]
#[allow(dead_code, reason = "what other tests of the binary have use for")]
mod binary;
mod deaf;
mod degraded;
#[path = "../serve/server.rs"]
#[allow(dead_code, reason = "what other tests of the binary have use for")]
mod process;
mod redis;
#[path = "../../../tidegate/tests/common/redis_server.rs"]
mod redis_server;
mod server;
mod sharing;
mod starting;
mod together;
#[path = "../waiting/mod.rs"]
mod waiting;

use redis::Redis;
use server::Server;
use waiting::wait_until;
