//! A redis-server, with redis-cli to send commands.

use std::ops::{Deref, DerefMut};
use std::process::Command;

use super::RedisServer;

/// A redis-server, with redis-cli to send commands.
pub(crate) struct RedisProcess {
    server: RedisServer,
    password: Option<String>,
}

impl RedisProcess {
    /// Starts with default settings.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts with extra settings.
    pub fn start_with(settings: &[&str]) -> Self {
        let password = settings.iter().position(|setting| *setting == "--requirepass");
        let password = password.map(|index| settings[index + 1].to_owned());
        Self { server: RedisServer::start(settings), password }
    }

    /// The output of redis-cli for a command.
    pub fn cli(&self, command: &[&str]) -> String {
        let login = self.password.iter().flat_map(|password| ["-a", password, "--no-auth-warning"]);
        cli(self.port, &login.chain(command.iter().copied()).collect::<Vec<_>>())
    }
}

impl Deref for RedisProcess {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

impl DerefMut for RedisProcess {
    fn deref_mut(&mut self) -> &mut RedisServer {
        &mut self.server
    }
}

/// The output of redis-cli.
pub(crate) fn cli(port: u16, args: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output().expect("redis-cli");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
