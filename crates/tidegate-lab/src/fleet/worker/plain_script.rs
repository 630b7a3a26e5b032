//! What many people would write first: gcra in a dozen lines of Lua, one key per call.

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::TIMEOUT;
use super::decider::Decider;
use crate::fleet::case::ScriptOutcome;

const SCRIPT: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1])) or now
if tat < now then tat = now end
local new_tat = tat + interval * cost
local allow_at = new_tat - interval * burst
if allow_at > now then
  return { 0, 0, allow_at - now, tat - now }
end
redis.call('SET', KEYS[1], new_tat, 'PX', math.ceil((new_tat - now) / 1000))
return { 1, math.floor((now - allow_at) / interval), 0, new_tat - now }
";

/// The script and its parameters.
pub(super) struct PlainScript {
    connection: MultiplexedConnection,
    hash: String,
    /// The time between two units.
    interval_us: u64,
    burst: u64,
}

impl PlainScript {
    pub(super) async fn connect(redis_port: u16, outcome: ScriptOutcome) -> Result<Self, String> {
        let failed = |error: redis::RedisError| error.to_string();
        let client = redis::Client::open(format!("redis://127.0.0.1:{redis_port}")).map_err(failed)?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(failed)?;
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).to_owned();
        let hash: String = load.query_async(&mut connection).await.map_err(failed)?;
        let (interval_us, burst) = match outcome {
            ScriptOutcome::Allowed => (3_600_000, 10_000_000),
            ScriptOutcome::Denied => (86_400_000_000, 1),
        };
        Ok(Self { connection, hash, interval_us, burst })
    }
}

impl Decider for PlainScript {
    async fn decide(&self, key: &str) -> Result<(), String> {
        let mut connection = self.connection.clone();
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(key).arg(self.interval_us).arg(self.burst).arg(1);
        let answer: Result<Vec<i64>, _> = command.query_async(&mut connection).await;
        match answer {
            Ok(numbers) if numbers.len() == 4 => Ok(()),
            Ok(numbers) => Err(format!("the script returned {numbers:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
