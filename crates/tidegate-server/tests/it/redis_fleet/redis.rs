//! A Redis that servers share, and that is asked what they did to it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;

use tidegate_testing::redis_server::RedisServer;

/// A server that runs for as long as this is kept.
pub struct Redis(RedisServer);

impl Redis {
    /// Starts one with these arguments besides.
    pub fn start(arguments: &[&str]) -> Self {
        Self(RedisServer::start(arguments))
    }

    /// What it answers to a command without spaces in its words, as it is written.
    pub fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).expect("it listens");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }

    /// How often scripts were called so far.
    pub fn script_calls(&self) -> u64 {
        let stats = self.ask("INFO commandstats");
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
