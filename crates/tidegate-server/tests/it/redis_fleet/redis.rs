//! The shared Redis server, and commands to inspect it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;

use tidegate_testing::redis_server::RedisServer;

/// A Redis server that runs until this is dropped.
pub struct Redis(RedisServer);

impl Redis {
    /// Starts a server with these additional arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self(RedisServer::start(arguments))
    }

    /// The raw reply to a command whose words contain no spaces.
    pub fn command(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).expect("Redis listens");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("Redis reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the reply is text");
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }

    /// The number of script calls so far.
    pub fn script_calls(&self) -> u64 {
        let stats = self.command("INFO commandstats");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap_or_default().parse().expect("a number"))
    }
}

impl Deref for Redis {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.0
    }
}
