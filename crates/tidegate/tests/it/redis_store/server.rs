//! A Redis server for one test, and waiting for conditions.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use tidegate_testing::redis_server as common;

/// How long anything may take on a busy machine.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// A running server.
pub struct RedisServer {
    server: common::RedisServer,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts with extra settings: names and values as on the command line.
    pub fn start_with(settings: &[&str]) -> Self {
        Self { server: common::RedisServer::start(settings) }
    }

    pub async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).unwrap();
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(WAIT_TIMEOUT))
            .set_response_timeout(Some(WAIT_TIMEOUT));
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    /// The reply to a command, given as words.
    pub async fn run_command<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            cmd.arg(word);
        });
        let mut connection = self.connection().await;
        cmd.query_async(&mut connection).await.unwrap()
    }
}

impl Deref for RedisServer {
    type Target = common::RedisServer;

    fn deref(&self) -> &common::RedisServer {
        &self.server
    }
}

impl DerefMut for RedisServer {
    fn deref_mut(&mut self) -> &mut common::RedisServer {
        &mut self.server
    }
}

/// Waits until a condition returns a value.
pub async fn wait_until<T>(mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, attempts).await.expect("the condition holds in time")
}
