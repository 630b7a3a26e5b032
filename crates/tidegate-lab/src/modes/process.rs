//! Redis and the nodes.

use std::iter::Sum;
use std::ops::{Add, Sub};
use std::path::Path;
use std::process::Command;

use super::CountedIn;
use crate::cpu::Cpu;
use crate::scratch::ScratchDir;
use crate::server::check::http_get;
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
    admin_port: u16,
}

/// What nodes have sent to Redis for decisions. Polls of the config store and heartbeats are not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentToRedis {
    /// Plans: what decisions, refills and pushes ask of Redis.
    pub plans: u64,
    /// Script calls. Plans of the same moment share one.
    pub calls: u64,
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
        let process = ChildProcess::start(command, name, &[ports.resp, ports.other[0]], scratch)?;
        Ok(Self { process, resp_port: ports.resp, admin_port: ports.other[0] })
    }

    /// What the node has sent since its start, by its metrics.
    pub fn sent(&self) -> Result<SentToRedis, String> {
        let metrics = http_get(self.admin_port, "/metrics").map_err(|error| format!("metrics: {error}"))?;
        let count = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let (plans, calls) = (count("tidegate_store_plans_total"), count("tidegate_store_calls_total"));
        Ok(SentToRedis { plans, calls })
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

impl Add for SentToRedis {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { plans: self.plans + other.plans, calls: self.calls + other.calls }
    }
}

impl Sub for SentToRedis {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { plans: self.plans - earlier.plans, calls: self.calls - earlier.calls }
    }
}

impl Sum for SentToRedis {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}
