//! Servers that share a store: a real Redis, which is stopped and let go on while they are asked.

mod asking;
mod deaf;
mod degraded;
mod redis;
mod server;
mod sharing;
mod starting;
mod together;

use crate::waiting::wait_until;
use redis::Redis;
use server::Server;
