//! The script on a real Redis, compared with the memory store.

mod golden;
#[cfg(feature = "rules")]
mod key_names;
mod plans;
mod random;
mod random_leases;
mod refunds;
mod sizes;
mod unreadable;

use redis::{Connection, RedisResult, Value};
use tidegate_core::{Counter, Limit, Op, Role, Timestamp};

use super::*;
use crate::redis::key_name::KeyName;
use crate::redis::plan::{RedisCharge, RedisPlan};
use crate::redis::testing::RedisServer;
use crate::store::LeaseReply;

const START_US: u64 = 1_750_000_000_000_000;

/// The times of these tests are long past for Redis, which would expire every key. So their epoch is this far
/// ahead of Redis' time.
const EPOCH_AHEAD_MS: i64 = 3_600_000;

/// A server with the script loaded.
struct ScriptServer {
    connection: Connection,
    sha: String,
    expiry_shift_ms: i64,
    server: RedisServer,
}

impl ScriptServer {
    fn new() -> Self {
        let server = RedisServer::start(&[]);
        let mut connection = connect(&server);
        let sha =
            redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(&mut connection).expect("the script loads");
        let (seconds, _): (i64, i64) = redis::cmd("TIME").query(&mut connection).expect("a time");
        Self { connection, sha, expiry_shift_ms: seconds * 1_000 + EPOCH_AHEAD_MS, server }
    }

    /// Runs a command other than the script.
    fn run_command<T: redis::FromRedisValue>(&mut self, command: &str, arguments: &[&[u8]]) -> T {
        redis::cmd(command).arg(arguments).query(&mut self.connection).expect("an answer")
    }

    fn flush(&mut self) {
        let () = self.run_command("FLUSHALL", &[]);
    }

    /// Runs one call of all plans, at this time.
    fn call_at(&mut self, now_us: u64, plans: Vec<RedisPlan>) -> Vec<Result<PlanReply, ReplayError>> {
        self.try_call(&self.new_call(now_us, plans)).expect("a reply")
    }

    /// Runs one plan.
    fn call_one_at(&mut self, now_us: u64, plan: RedisPlan) -> PlanReply {
        self.call_at(now_us, vec![plan]).pop().expect("an answer").expect("it can be read")
    }

    fn new_call(&self, now_us: u64, plans: Vec<RedisPlan>) -> Call {
        let mut call = Call::new(CallTime::Given { now_us, expiry_shift_ms: self.expiry_shift_ms });
        for plan in plans {
            assert!(call.add(plan, Timestamp::from_nanos(now_us * 1_000)).is_ok(), "there is room");
        }
        call
    }

    fn try_call(&mut self, call: &Call) -> RedisResult<Vec<Result<PlanReply, ReplayError>>> {
        let reply: Value = call.command(&self.sha).query(&mut self.connection)?;
        Ok(call.read(reply).unwrap_or_else(|bad| panic!("{bad}")))
    }

    /// When a key expires, by the given time; none if it does not exist.
    fn expires_ms(&mut self, key: &[u8]) -> Option<i64> {
        match self.run_command("PEXPIRETIME", &[key]) {
            -2 => None,
            -1 => panic!("a key without an expiry"),
            at => Some(at - self.expiry_shift_ms),
        }
    }
}

fn connect(server: &RedisServer) -> Connection {
    let client = redis::Client::open(server.url()).expect("it is an address");
    client.get_connection().expect("the server is there")
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn charge(key: &str, limit: &Limit, cost: u64) -> RedisCharge {
    RedisCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: limit.algorithm().clone(),
        cost,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: tidegate_core::DenyCache::On,
        mobility: crate::redis::topology::KeyMobility::Movable,
    }
}

fn redis_plan(op: Op, charges: impl IntoIterator<Item = RedisCharge>) -> RedisPlan {
    RedisPlan::new(op, charges.into_iter().collect())
}

fn check(key: &str, limit: &Limit, cost: u64) -> RedisPlan {
    redis_plan(Op::Check, [charge(key, limit, cost)])
}
