//! Servers that share a real Redis, which some tests suspend and resume.

mod client;
mod degraded;
mod in_flight;
mod modes;
mod overrides;
mod redis;
mod server;
mod sharing;
mod slow_reader;
mod starting;
mod unreplicated;

use crate::support::wait_until;
use redis::Redis;
use server::Server;
