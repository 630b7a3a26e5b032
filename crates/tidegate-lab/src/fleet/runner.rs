//! Runs a case and measures a turn: the CPU time of Redis and of its client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use super::IN_FLIGHT;
use super::case::{Case, DecidedBy};
use crate::cpu::Cpu;
use crate::measure::WallTime;
use crate::scratch::ScratchDir;
use crate::server::Options;
use crate::server::load::{self, LoadResult, LoadSpec};
use crate::server::load_kind::{InFlight, LoadKind};
use crate::server::program::{self, Program};
use crate::server::running::{ChildProcess, POLL_EVERY, Ports, START_MAX_NS};
use crate::server::target::{Target, TargetRequest};

/// The Redis server of the cases.
pub(super) struct RedisServer {
    process: ChildProcess,
    pub port: u16,
}

/// The cost of a turn: CPU seconds per million decisions, and decisions per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedisTurn {
    /// The client's; `None` where the client is a load generator.
    pub client_s: Option<f64>,
    pub redis_s: f64,
    pub per_second: f64,
}

/// A running case, stopped when this is dropped.
pub(super) enum Runner {
    Worker { child: Child, input: ChildStdin, output: BufReader<ChildStdout> },
    Server { process: ChildProcess, target: Target, port: u16 },
    Incr,
}

impl RedisServer {
    pub(super) fn start(scratch: &ScratchDir) -> Result<Self, String> {
        Self::running(scratch, "redis", &[])
    }

    /// Starts a cluster of one server.
    pub(super) fn start_cluster(scratch: &ScratchDir) -> Result<Self, String> {
        let cluster = Self::running(scratch, "redis-cluster", &["--cluster-enabled", "yes"])?;
        cluster.call(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
        // The cluster needs a moment after it has all slots.
        let wall = WallTime::start();
        while !cluster.call(&["CLUSTER", "INFO"])?.contains("cluster_state:ok") {
            if wall.elapsed_ns() > START_MAX_NS {
                return Err("the cluster does not start".to_owned());
            }
            thread::park_timeout(POLL_EVERY);
        }
        Ok(cluster)
    }

    fn running(scratch: &ScratchDir, name: &str, options: &[&str]) -> Result<Self, String> {
        let port = Ports::free().map_err(|error| error.to_string())?.resp;
        let mut command = program::redis(port, scratch);
        command.args(options);
        let process = ChildProcess::start(command, name, &[port], scratch)?;
        Ok(Self { process, port })
    }

    /// Deletes all keys, but no scripts.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.call(&["FLUSHALL"]).map(drop)
    }

    /// Runs a command and returns the reply.
    fn call(&self, words: &[&str]) -> Result<String, String> {
        let output =
            Command::new("redis-cli").args(["-e", "-p", &self.port.to_string()]).args(words).output();
        let output =
            output.map_err(|error| format!("cannot start redis-cli: {error} (hint: install redis-tools)"))?;
        let reply = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(reply)
        } else {
            Err(format!("redis-cli: {}: {reply}", output.status))
        }
    }

    fn cpu(&self) -> Result<Cpu, String> {
        Cpu::of(self.process.id()).ok_or_else(|| "Redis has ended".to_owned())
    }
}

impl Runner {
    pub(super) fn start(
        case: &Case,
        redis: &RedisServer,
        options: &Options,
        scratch: &ScratchDir,
    ) -> Result<Self, String> {
        match case.decided_by {
            DecidedBy::Tidegate(_)
            | DecidedBy::TidegateOnCluster(_)
            | DecidedBy::PlainScript(_)
            | DecidedBy::Limitador => worker(case, redis),
            DecidedBy::Incr => Ok(Self::Incr),
            DecidedBy::TidegateServer => serve(Program::Tidegate, redis, options, scratch),
            DecidedBy::Ratelimit => serve(Program::Ratelimit, redis, options, scratch),
        }
    }

    /// Runs a turn.
    pub(super) fn turn(
        &mut self,
        redis: &RedisServer,
        decisions: u64,
        scratch: &ScratchDir,
    ) -> Result<RedisTurn, String> {
        let (client_before, redis_before) = (self.cpu()?, redis.cpu()?);
        let result = self.run(redis, decisions, scratch)?;
        let (client_after, redis_after) = (self.cpu()?, redis.cpu()?);
        let per_million = |before: Cpu, after: Cpu| (after - before).per_million(result.requests).total_s();
        Ok(RedisTurn {
            client_s: client_before.zip(client_after).map(|(before, after)| per_million(before, after)),
            redis_s: per_million(redis_before, redis_after),
            per_second: result.per_second,
        })
    }

    fn run(
        &mut self,
        redis: &RedisServer,
        decisions: u64,
        scratch: &ScratchDir,
    ) -> Result<LoadResult, String> {
        let spec = |request, port, in_flight| LoadSpec {
            request,
            port,
            in_flight,
            requests: decisions,
            per_second: None,
            scratch,
        };
        match self {
            Self::Worker { input, output, .. } => {
                writeln!(input, "{decisions}").map_err(|error| error.to_string())?;
                let took_ns: u64 =
                    line(output)?.parse().map_err(|_| "the worker did not print a number".to_owned())?;
                let per_second = decisions as f64 * 1e9 / took_ns as f64;
                Ok(LoadResult { requests: decisions, per_second })
            }
            Self::Server { target, port, .. } => load::run(&spec(&target.request, *port, SERVER_IN_FLIGHT)),
            Self::Incr => {
                let request = TargetRequest::Resp { command: vec!["INCR", "user:__rand_int__"], reply: ":" };
                load::run(&spec(&request, redis.port, INCR_IN_FLIGHT))
            }
        }
    }

    fn cpu(&self) -> Result<Option<Cpu>, String> {
        let id = match self {
            Self::Worker { child, .. } => child.id(),
            Self::Server { process, .. } => process.id(),
            Self::Incr => return Ok(None),
        };
        Cpu::of(id).map(Some).ok_or_else(|| "the process has ended".to_owned())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Self::Worker { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Streams of h2load: in total, the same number as a worker has decisions in flight.
const SERVER_IN_FLIGHT: InFlight = InFlight { connections: 8, per_connection: IN_FLIGHT / 8 };
/// Connections of redis-benchmark.
const INCR_IN_FLIGHT: InFlight = InFlight { connections: IN_FLIGHT, per_connection: 1 };

fn worker(case: &Case, redis: &RedisServer) -> Result<Runner, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["fleet-worker", case.name, &redis.port.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or("the worker has no pipes")?;
    let mut output = BufReader::new(output);
    let first_line = line(&mut output);
    let runner = Runner::Worker { child, input, output };
    match first_line.as_deref() {
        Ok("ready") => Ok(runner),
        _ => Err("the worker did not start; see its error above".to_owned()),
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> Result<String, String> {
    let mut text = String::new();
    match output.read_line(&mut text) {
        Ok(0) => Err("the worker has ended".to_owned()),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn serve(
    program: Program,
    redis: &RedisServer,
    options: &Options,
    scratch: &ScratchDir,
) -> Result<Runner, String> {
    let ports = Ports { resp: redis.port, ..Ports::free().map_err(|error| error.to_string())? };
    let command = match program {
        Program::Ratelimit => program::ratelimit(&program::peer(options, "ratelimit")?, &ports, scratch)?,
        _ => {
            let mut command = program::tidegate_serve(&options.tidegate, &ports, scratch)?;
            command.args(["--store", &format!("redis://127.0.0.1:{}", redis.port), "--store-timeout", "5s"]);
            command
        }
    };
    let process = ChildProcess::start(command, program.name(), &[ports.grpc], scratch)?;
    let target = Target::all(LoadKind::GrpcDeep).into_iter().find(|target| target.program == program);
    let target = target.ok_or("it has no gRPC")?;
    Ok(Runner::Server { process, target, port: ports.grpc })
}
