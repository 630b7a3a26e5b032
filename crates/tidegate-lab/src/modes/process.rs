//! Redis and the nodes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use super::CountedIn;
use crate::cpu::Cpu;
use crate::scratch::ScratchDir;
use crate::server::program;
use crate::server::running::{ChildProcess, Ports};

/// A Redis server.
pub(super) struct Redis {
    process: ChildProcess,
    port: u16,
}

/// A node.
pub(super) struct Node {
    process: ChildProcess,
    pub resp_port: u16,
}

/// A signal for a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Kill,
    Stop,
    Continue,
}

impl Redis {
    pub fn start(scratch: &ScratchDir) -> Result<Self, String> {
        let port = Ports::free().map_err(|error| error.to_string())?.resp;
        let command = program::redis(port, scratch);
        let process = ChildProcess::start(command, "redis", &[port], scratch)
            .map_err(|error| format!("{error} (hint: install redis-server)"))?;
        Ok(Self { process, port })
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn cpu(&self) -> Result<Cpu, String> {
        cpu_of(&self.process)
    }

    /// Calls of scripts since the start.
    pub fn script_calls(&self) -> Result<u64, String> {
        let stats = self.call("INFO commandstats\r\n")?;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        Ok(line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0))
    }

    /// Sends an inline command, and returns a bulk reply or a line.
    fn call(&self, command: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("Redis did not reply: {error}");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).map_err(failed)?;
        stream.write_all(command.as_bytes()).map_err(failed)?;
        let mut reply = String::new();
        let mut part = [0; 4096];
        loop {
            let bytes = stream.read(&mut part).map_err(failed)?;
            reply.push_str(&String::from_utf8_lossy(&part[..bytes]));
            let Some((head, rest)) = reply.split_once("\r\n") else {
                if bytes == 0 {
                    return Err("Redis closed the connection".to_owned());
                }
                continue;
            };
            let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
            if rest.len() >= length {
                return Ok(rest.to_owned());
            }
        }
    }
}

impl Node {
    /// Starts a node whose only rule has this limit for each user.
    pub fn start(
        tidegate: &Path,
        name: &str,
        counted: CountedIn,
        limit: &str,
        redis: Option<&Redis>,
        scratch: &ScratchDir,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let rules = format!(
            "domain: api\nrules:\n  - name: hot\n    key: [user]\n    mode: {}\n    limits: [ {limit} ]\n",
            counted.mode()
        );
        let rules = scratch.write(&format!("{name}.yaml"), rules).map_err(failed)?;
        let ports = Ports::free().map_err(failed)?;
        let address = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(tidegate);
        command.arg("serve").arg("--rules").arg(rules);
        command.args(["--resp", &address(ports.resp), "--admin", &address(ports.other[0])]);
        command.args(["--http", "off", "--grpc", "off", "--log-level", "error"]);
        if let Some(redis) = redis {
            command.args(["--store", &redis.url()]);
        }
        let process = ChildProcess::start(command, name, &[ports.resp], scratch)?;
        Ok(Self { process, resp_port: ports.resp })
    }

    pub fn cpu(&self) -> Result<Cpu, String> {
        cpu_of(&self.process)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let name = match signal {
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            status => Err(format!("kill {name} failed: {status:?}")),
        }
    }
}

fn cpu_of(process: &ChildProcess) -> Result<Cpu, String> {
    Cpu::of(process.id()).ok_or_else(|| "a process has ended, or there is no /proc".to_owned())
}
