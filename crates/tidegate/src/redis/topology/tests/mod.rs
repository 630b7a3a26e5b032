//! Tests with real servers.

mod cluster;
pub(crate) mod lazy_connect;
mod login;
pub(crate) mod outages;
pub(crate) mod pipelines;
mod ring;
mod sentinel;
mod tls;
pub(crate) mod wrong_server;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::{Value, cmd};

use super::{KeyLocation, KeyMobility, Servers};
use crate::redis::connection::{SendError, SlotCommand};
use crate::redis::testing::wait_until;
use crate::redis::{BreakerState, ConnectError, EventHook, RedisSettings, StoreEvent, WriteState};
use crate::{Clock as _, SystemClock};

/// Adds to a number.
const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

/// A timeout that is long enough for a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(20);

/// The events that were reported.
type EventLog = Arc<Mutex<Vec<StoreEvent>>>;

fn settings(url: &str, timeout: Duration) -> RedisSettings {
    let mut settings = RedisSettings::new(url.parse().expect("a URL"));
    settings.timeout = timeout;
    settings
}

/// Settings, and the events that are reported.
fn settings_with_log(url: &str, timeout: Duration) -> (RedisSettings, EventLog) {
    let events = EventLog::default();
    let mut settings = settings(url, timeout);
    let hook = events.clone();
    settings.on_event = Some(EventHook::new(move |event| hook.lock().expect("a lock").push(event)));
    (settings, events)
}

async fn connect(url: &str) -> Arc<Servers> {
    connect_with(&settings(url, LONG_TIMEOUT)).await
}

async fn connect_with(settings: &RedisSettings) -> Arc<Servers> {
    let servers = Servers::connect(settings, &[ADD]).await.unwrap_or_else(|error| panic!("{error}"));
    tokio::spawn(tick_loop(Arc::downgrade(&servers)));
    servers
}

async fn tick_loop(servers: Weak<Servers>) {
    let clock = SystemClock::new();
    while let Some(servers) = servers.upgrade() {
        servers.tick(clock.now());
        drop(servers);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn connect_error_of(url: &str) -> ConnectError {
    let error = Servers::connect(&settings(url, LONG_TIMEOUT), &[ADD]).await.err().expect("an error");
    assert!(error.to_string().contains("(hint: "), "{error}");
    error
}

/// Adds to the number of a tag.
async fn add(servers: &Servers, tag: &str, number: i64) -> Result<i64, SendError> {
    add_all(servers, &[(tag, number)]).await.remove(0)
}

/// Adds to the numbers of tags that are all at the server of the first one, in one pipeline.
async fn add_all(servers: &Servers, numbers: &[(&str, i64)]) -> Vec<Result<i64, SendError>> {
    let server = locate(servers, numbers[0].0).server;
    let commands = numbers.iter().map(|(tag, number)| add_command(servers, tag, *number)).collect();
    let replies = servers.send(server, commands).await;
    replies
        .results
        .into_iter()
        .map(|reply| reply.map(|value| if let Value::Int(sum) = value { sum } else { panic!("{value:?}") }))
        .collect()
}

fn add_command(servers: &Servers, tag: &str, number: i64) -> SlotCommand {
    let mut command = cmd("EVALSHA");
    command.arg(servers.sha(0)).arg(1).arg(key(tag)).arg(number);
    SlotCommand { slot: locate(servers, tag).slot, command }
}

fn locate(servers: &Servers, tag: &str) -> KeyLocation {
    servers.locate(tag.as_bytes(), KeyMobility::Movable)
}

fn key(tag: &str) -> String {
    format!("tg:1{{{tag}}}x")
}

fn breakers(servers: &Servers) -> Vec<BreakerState> {
    servers.stats().servers.iter().map(|server| server.breaker).collect()
}

async fn wait_until_breakers(servers: &Servers, state: BreakerState) {
    wait_until("the breakers change", async || breakers(servers).iter().all(|breaker| *breaker == state))
        .await;
}
