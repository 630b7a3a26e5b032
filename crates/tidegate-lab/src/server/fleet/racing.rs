//! A contender that runs, and what one turn of it took: of itself and of Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use super::IN_FLIGHT;
use super::contender::{By, Contender};
use crate::server::contender::{Contender as Served, DOMAIN, KEY, Question};
use crate::server::cpu::Cpu;
use crate::server::load::{self, Done};
use crate::server::program::{self, Program};
use crate::server::running::{LOOK_EVERY, OneProcess, Ports, START_MAX_NS};
use crate::server::shape::{Shape, Width};
use crate::server::{Options, Scratch};
use crate::stopwatch::WallTime;

/// The Redis that all of them use.
pub(super) struct Redis {
    process: OneProcess,
    pub port: u16,
}

/// What a turn took: seconds per million decisions, and decisions per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// Of whoever asked Redis; none where that is a load generator.
    pub own_s: Option<f64>,
    pub redis_s: f64,
    pub per_second: f64,
}

/// A contender that runs, until it is dropped.
pub(super) enum Racing {
    Worker { child: Child, told: ChildStdin, answers: BufReader<ChildStdout> },
    Server { process: OneProcess, asked: Served, port: u16 },
    Incr,
}

impl Redis {
    pub(super) fn start(scratch: &Scratch) -> Result<Self, String> {
        Self::running(scratch, "redis", &[])
    }

    /// A cluster that is this one server.
    pub(super) fn start_cluster(scratch: &Scratch) -> Result<Self, String> {
        let cluster = Self::running(scratch, "redis-cluster", &["--cluster-enabled", "yes"])?;
        cluster.tell(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
        // It is up a moment after it has all slots.
        let wall = WallTime::start();
        while !cluster.tell(&["CLUSTER", "INFO"])?.contains("cluster_state:ok") {
            if wall.elapsed_ns() > START_MAX_NS {
                return Err("the cluster does not come up".to_owned());
            }
            thread::park_timeout(LOOK_EVERY);
        }
        Ok(cluster)
    }

    fn running(scratch: &Scratch, name: &str, options: &[&str]) -> Result<Self, String> {
        let port = Ports::free().map_err(|error| error.to_string())?.resp;
        let mut command = program::redis(port, scratch);
        command.args(options);
        let process = OneProcess::start(command, name, &[port], scratch)?;
        Ok(Self { process, port })
    }

    /// Forgets everything but scripts.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.tell(&["FLUSHALL"]).map(drop)
    }

    /// What it says to a command.
    fn tell(&self, words: &[&str]) -> Result<String, String> {
        let told = Command::new("redis-cli").args(["-e", "-p", &self.port.to_string()]).args(words).output();
        let told =
            told.map_err(|error| format!("cannot start redis-cli (hint: it is in redis-tools): {error}"))?;
        let said = String::from_utf8_lossy(&told.stdout).into_owned();
        if told.status.success() { Ok(said) } else { Err(format!("redis-cli: {}: {said}", told.status)) }
    }

    fn cpu(&self) -> Result<Cpu, String> {
        Cpu::of(self.process.id()).ok_or_else(|| "Redis has ended".to_owned())
    }
}

impl Racing {
    pub(super) fn start(
        contender: &Contender,
        redis: &Redis,
        options: &Options,
        scratch: &Scratch,
    ) -> Result<Self, String> {
        match contender.by {
            By::Tidegate(_) | By::TidegateOnCluster(_) | By::PlainScript(_) | By::Limitador => {
                worker(contender, redis)
            }
            By::Incr => Ok(Self::Incr),
            By::TidegateServer => serve(Program::Tidegate, redis, options, scratch),
            By::Ratelimit => serve(Program::Ratelimit, redis, options, scratch),
        }
    }

    /// One turn.
    pub(super) fn turn(&mut self, redis: &Redis, decisions: u64, scratch: &Scratch) -> Result<Turn, String> {
        let (own_before, redis_before) = (self.cpu()?, redis.cpu()?);
        let done = self.run(redis, decisions, scratch)?;
        let (own_after, redis_after) = (self.cpu()?, redis.cpu()?);
        let per_million = |before: Cpu, after: Cpu| (after - before).per_million(done.requests).total_s();
        Ok(Turn {
            own_s: own_before.zip(own_after).map(|(before, after)| per_million(before, after)),
            redis_s: per_million(redis_before, redis_after),
            per_second: done.per_second,
        })
    }

    fn run(&mut self, redis: &Redis, decisions: u64, scratch: &Scratch) -> Result<Done, String> {
        let order = |question, port, width| load::Order {
            question,
            port,
            width,
            requests: decisions,
            per_second: None,
            scratch,
        };
        match self {
            Self::Worker { told, answers, .. } => {
                writeln!(told, "{decisions}").map_err(|error| error.to_string())?;
                let took_ns: u64 =
                    line(answers)?.parse().map_err(|_| "the worker said no number".to_owned())?;
                let per_second = decisions as f64 * 1e9 / took_ns as f64;
                Ok(Done { requests: decisions, per_second })
            }
            Self::Server { asked, port, .. } => load::run(&order(&asked.question, *port, SERVED_WIDTH)),
            Self::Incr => {
                let question = Question::Resp { command: vec!["INCR", "user:__rand_int__"], reply: ":" };
                load::run(&order(&question, redis.port, INCR_WIDTH))
            }
        }
    }

    fn cpu(&self) -> Result<Option<Cpu>, String> {
        let id = match self {
            Self::Worker { child, .. } => child.id(),
            Self::Server { process, .. } => process.id(),
            Self::Incr => return Ok(None),
        };
        Cpu::of(id).map(Some).ok_or_else(|| "it has ended".to_owned())
    }
}

impl Drop for Racing {
    fn drop(&mut self) {
        if let Self::Worker { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Streams of h2load: as many as workers have decisions in flight.
const SERVED_WIDTH: Width = Width { connections: 8, at_once: IN_FLIGHT / 8 };
/// Connections of redis-benchmark.
const INCR_WIDTH: Width = Width { connections: IN_FLIGHT, at_once: 1 };

fn worker(contender: &Contender, redis: &Redis) -> Result<Racing, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["fleet-worker", contender.name, &redis.port.to_string()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (told, answers) = child.stdin.take().zip(child.stdout.take()).ok_or("a worker without pipes")?;
    let mut answers = BufReader::new(answers);
    let greeting = line(&mut answers);
    let racing = Racing::Worker { child, told, answers };
    match greeting.as_deref() {
        Ok("ready") => Ok(racing),
        _ => Err("the worker did not start; what it said is above".to_owned()),
    }
}

fn line(answers: &mut BufReader<ChildStdout>) -> Result<String, String> {
    let mut text = String::new();
    match answers.read_line(&mut text) {
        Ok(0) => Err("the worker has ended".to_owned()),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn serve(program: Program, redis: &Redis, options: &Options, scratch: &Scratch) -> Result<Racing, String> {
    let ports = Ports { resp: redis.port, ..Ports::free().map_err(|error| error.to_string())? };
    let command = match program {
        Program::Ratelimit => program::ratelimit(&program::peer(options, "ratelimit")?, &ports, scratch)?,
        _ => tidegate_on(redis, &ports, options, scratch)?,
    };
    let process = OneProcess::start(command, program.name(), &[ports.grpc], scratch)?;
    let asked = Served::all(Shape::GrpcDeep).into_iter().find(|one| one.program == program);
    let asked = asked.ok_or("it is not asked over gRPC")?;
    Ok(Racing::Server { process, asked, port: ports.grpc })
}

/// `tidegate serve` with its counters in that Redis.
fn tidegate_on(
    redis: &Redis,
    ports: &Ports,
    options: &Options,
    scratch: &Scratch,
) -> Result<Command, String> {
    let rules = format!(
        "domain: {DOMAIN}\nrules:\n  - name: every-{KEY}\n    key: [{KEY}]\n    limits: [ 1000000000 per minute ]\n"
    );
    let rules = scratch.write("fleet.yaml", rules).map_err(|error| error.to_string())?;
    let mut command = Command::new(&options.tidegate);
    command.arg("serve").arg("--rules").arg(rules);
    command.args(["--store", &format!("redis://127.0.0.1:{}", redis.port), "--store-timeout", "5s"]);
    command.args([
        "--grpc",
        &format!("127.0.0.1:{}", ports.grpc),
        "--http",
        &format!("127.0.0.1:{}", ports.http),
    ]);
    command.args(["--admin", &format!("127.0.0.1:{}", ports.other[0])]);
    Ok(command)
}
