//! The server programs: where they are, and how to start them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Options;
use super::running::{ChildProcess, Ports, RunningServer};
use super::target::{DOMAIN, KEY};
use crate::scratch::ScratchDir;

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The servers of this program that decide nothing.
    Empty,
    /// `tidegate serve`.
    Tidegate,
    /// Redis.
    Redis,
    /// Redis with the module redis-cell.
    RedisCell,
    /// throttlecrab-server.
    Throttlecrab,
    /// envoyproxy/ratelimit with its own Redis.
    Ratelimit,
    /// gubernator.
    Gubernator,
}

/// Why a program is not measured, and how to install it.
#[derive(Debug)]
pub(super) struct Missing {
    pub why: String,
    pub hint: &'static str,
}

const BY_SCRIPT: &str = "scripts/bench-server installs it";

impl Program {
    /// All programs.
    pub const ALL: [Self; 7] = [
        Self::Empty,
        Self::Tidegate,
        Self::Redis,
        Self::RedisCell,
        Self::Throttlecrab,
        Self::Ratelimit,
        Self::Gubernator,
    ];

    /// The name for `--only` and the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Tidegate => "tidegate",
            Self::Redis => "redis",
            Self::RedisCell => "redis-cell",
            Self::Throttlecrab => "throttlecrab",
            Self::Ratelimit => "ratelimit",
            Self::Gubernator => "gubernator",
        }
    }

    /// Starts it on free ports.
    pub(super) fn start(self, options: &Options, scratch: &ScratchDir) -> Result<RunningServer, Missing> {
        let hint = match self {
            Self::Empty => "build with --features peers",
            Self::Tidegate => "cargo build --release -p tidegate-server, or --tidegate PATH",
            _ => BY_SCRIPT,
        };
        let started = self.try_start(options, scratch);
        started.map_err(|why| Missing { why, hint })
    }

    fn try_start(self, options: &Options, scratch: &ScratchDir) -> Result<RunningServer, String> {
        let ports = Ports::free().map_err(|error| error.to_string())?;
        let (command, needed) = match self {
            Self::Empty => (empty(&ports)?, vec![ports.resp, ports.http, ports.grpc]),
            Self::Tidegate => (tidegate(options, &ports, scratch)?, vec![ports.resp, ports.http, ports.grpc]),
            Self::Redis => (redis(ports.resp, scratch), vec![ports.resp]),
            Self::RedisCell => (redis_cell(&ports, options, scratch)?, vec![ports.resp]),
            Self::Throttlecrab => (
                throttlecrab(&peer(options, "throttlecrab-server")?, &ports),
                vec![ports.resp, ports.http, ports.grpc],
            ),
            Self::Ratelimit => (ratelimit(&peer(options, "ratelimit")?, &ports, scratch)?, vec![ports.grpc]),
            Self::Gubernator => {
                // gubernator listens for HTTP once it has found the members of its cluster.
                (gubernator(&peer(options, "gubernator")?, &ports, scratch)?, vec![ports.grpc, ports.http])
            }
        };
        // ratelimit does not speak RESP, so the Redis behind it takes that port.
        let backing = match self {
            Self::Ratelimit => {
                let redis = redis(ports.resp, scratch);
                Some(ChildProcess::start(redis, "ratelimit-redis", &[ports.resp], scratch)?)
            }
            _ => None,
        };
        let server = ChildProcess::start(command, self.name(), &needed, scratch)?;
        Ok(RunningServer::new(server, backing, ports))
    }
}

/// The path of a program that scripts/bench-server has built.
pub(crate) fn peer(options: &Options, name: &str) -> Result<PathBuf, String> {
    existing(options.peers.join("bin").join(name), options, name)
}

fn existing(path: PathBuf, options: &Options, name: &str) -> Result<PathBuf, String> {
    if path.is_file() {
        return Ok(path);
    }
    // The script keeps the end of a failed build's output.
    let why = fs::read_to_string(options.peers.join(format!("{name}.failed"))).unwrap_or_default();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = if why.is_empty() { String::new() } else { format!("; its build failed: {why}") };
    Err(format!("there is no {}{why}", path.display()))
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn empty(ports: &Ports) -> Result<Command, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args(["empty-server", "--resp", &local(ports.resp)]);
    command.args(["--http", &local(ports.http), "--grpc", &local(ports.grpc)]);
    Ok(command)
}

fn tidegate(options: &Options, ports: &Ports, scratch: &ScratchDir) -> Result<Command, String> {
    let program = existing(options.tidegate.clone(), options, "tidegate")?;
    let mut command = tidegate_serve(&program, ports, scratch)?;
    command.args(["--resp", &local(ports.resp)]);
    Ok(command)
}

/// `tidegate serve` with HTTP and gRPC.
pub(crate) fn tidegate_serve(program: &Path, ports: &Ports, scratch: &ScratchDir) -> Result<Command, String> {
    let rules = format!(
        "domain: {DOMAIN}\nrules:\n  - name: every-{KEY}\n    key: [{KEY}]\n    limits: [ 1000000000 per minute ]\n"
    );
    let rules = scratch.write("tidegate.yaml", rules).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--rules").arg(rules);
    command.args(["--http", &local(ports.http), "--grpc", &local(ports.grpc)]);
    command.args(["--admin", &local(ports.other[0])]);
    Ok(command)
}

pub(crate) fn redis(port: u16, scratch: &ScratchDir) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
    command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(scratch.path(""));
    command
}

fn redis_cell(ports: &Ports, options: &Options, scratch: &ScratchDir) -> Result<Command, String> {
    let module = existing(options.peers.join("libredis_cell.so"), options, "redis-cell")?;
    let module = module.canonicalize().map_err(|error| error.to_string())?;
    let mut command = redis(ports.resp, scratch);
    command.arg("--loadmodule").arg(module);
    Ok(command)
}

fn throttlecrab(program: &Path, ports: &Ports) -> Command {
    let mut command = Command::new(program);
    command.args(["--log-level", "warn"]);
    for (protocol, port) in [("redis", ports.resp), ("http", ports.http), ("grpc", ports.grpc)] {
        command.args([format!("--{protocol}"), format!("--{protocol}-host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{protocol}-port"), port.to_string()]);
    }
    command
}

/// Configured as its documentation says, but without statsd.
pub(crate) fn ratelimit(program: &Path, ports: &Ports, scratch: &ScratchDir) -> Result<Command, String> {
    let limits = format!(
        "domain: {DOMAIN}\ndescriptors:\n  - key: {KEY}\n    rate_limit: {{unit: minute, requests_per_unit: 1000000000}}\n"
    );
    scratch.write("runtime/bench/config/limits.yaml", limits).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.env("RUNTIME_ROOT", scratch.path("runtime")).env("RUNTIME_SUBDIRECTORY", "bench");
    command.env("RUNTIME_WATCH_ROOT", "false").env("USE_STATSD", "false").env("LOG_LEVEL", "warn");
    command.env("REDIS_SOCKET_TYPE", "tcp").env("REDIS_URL", local(ports.resp));
    command.env("HOST", "127.0.0.1").env("PORT", ports.http.to_string());
    command.env("GRPC_HOST", "127.0.0.1").env("GRPC_PORT", ports.grpc.to_string());
    command.env("DEBUG_HOST", "127.0.0.1").env("DEBUG_PORT", ports.other[0].to_string());
    Ok(command)
}

/// gubernator always listens for other nodes on this port.
const GUBERNATOR_MEMBERS_PORT: u16 = 7946;

/// A cluster of one node, which joins itself. gubernator requires a settings file, but takes all settings from the
/// environment.
fn gubernator(program: &Path, ports: &Ports, scratch: &ScratchDir) -> Result<Command, String> {
    let settings = scratch.write("gubernator.conf", "").map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("-config").arg(settings);
    command.env("GUBER_GRPC_ADDRESS", local(ports.grpc)).env("GUBER_HTTP_ADDRESS", local(ports.http));
    command.env("GUBER_ADVERTISE_ADDRESS", local(ports.grpc)).env("GUBER_LOG_LEVEL", "error");
    let member = local(GUBERNATOR_MEMBERS_PORT);
    command.env("GUBER_MEMBERLIST_ADDRESS", &member).env("GUBER_MEMBERLIST_KNOWN_NODES", member);
    Ok(command)
}
