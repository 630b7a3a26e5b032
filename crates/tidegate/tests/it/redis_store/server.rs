//! A Redis server of a test's own, and waiting for what comes about.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use tidegate_testing::redis_server as common;

/// How long anything that has to happen may take on a machine that has other things to do.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// A server that runs.
pub struct RedisServer {
    server: common::RedisServer,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With more settings: names and values as on the command line.
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

    /// What the server says to a command; a word for each argument.
    pub async fn run_command<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut asked = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            asked.arg(word);
        });
        let mut connection = self.connection().await;
        asked.query_async(&mut connection).await.unwrap()
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

/// What a question is answered with, asked again and again until it is.
pub async fn wait_until<T>(mut question: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, asking).await.expect("it comes about in time")
}
