//! The subcommands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate::AlgorithmName;

use crate::bench::{self, Section};
use crate::snapshot::Measurement;
use crate::spray::Spray;
use crate::{Bytes, matching, pictures, process, server, snapshot_child};

/// Measures Tidegate: speed beside other rate limiters, memory per key, and bounds under a flood of keys;
/// and draws the algorithms.
///
/// Build with --release; figures of a debug build mean nothing. Build with --features peers to compare with
/// other rate limiters (governor, throttlecrab, limitador, pingora-limits) and clocks.
#[derive(Parser)]
#[command(name = "tidegate-lab", version, after_help = EXAMPLES)]
struct Lab {
    #[command(subcommand)]
    command: Task,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p tidegate-lab --features peers -- bench
  cargo run --release -p tidegate-lab --features peers -- bench --quick --section speed
  cargo run --release -p tidegate-lab --features peers -- matching
  cargo run --release -p tidegate-lab --features peers -- server --only http --rounds 3
  cargo run --release -p tidegate-lab --features peers -- fleet --rounds 3
  cargo run --release -p tidegate-lab --features peers -- rss --keys 10000000
  cargo run --release -p tidegate-lab -- spray --keys 50000000 --memory-max 256MiB
  cargo run --release -p tidegate-lab -- snapshot --keys 10000000
  cargo run -p tidegate-lab -- pictures";

#[derive(Subcommand)]
enum Task {
    Bench(Bench),
    Matching(MatchingArgs),
    Rss(Rss),
    Spray(SprayArgs),
    Snapshot(SnapshotArgs),
    Pictures(PicturesArgs),
    Server(ServerArgs),
    Fleet(FleetArgs),
    #[command(hide = true)]
    EmptyServer(EmptyServer),
    #[command(hide = true)]
    FleetWorker(FleetWorker),
    #[command(hide = true)]
    RssChild(RssChild),
    #[command(hide = true)]
    SnapshotChild(SnapshotChild),
}

/// Prints what a decision costs, side by side in one run, and whether the goals were met.
///
/// Contenders take turns, many rounds, so that whatever else the machine does hits all of them alike. Figures
/// are processor time per decision: the least and the median of the rounds.
///
/// Sections: speed (four kinds of traffic, one thread and two), denial (a key that is over its limit), ledgers
/// (sub_windows and sliding_log by size), rss (memory per key), clocks.
#[derive(Args)]
struct Bench {
    /// Fewer and shorter rounds, fewer keys: tens of seconds instead of minutes, and noisier
    #[arg(long)]
    quick: bool,
    /// Only this section; may be given several times
    #[arg(long = "section", value_name = "NAME", value_parser = Section::parse)]
    sections: Vec<Section>,
}

/// Prints what it costs to find the rules that match a request, by the number of rules and what they ask for.
///
/// Every number of rules takes turns with the others, many rounds. Figures are processor time per request. Built
/// with --features peers it compares with limitador in the same run. Fails nothing.
#[derive(Args)]
struct MatchingArgs {
    /// Fewer rounds, and noisier
    #[arg(long)]
    quick: bool,
}

/// Prints the memory that a live key takes, each contender in a process of its own.
#[derive(Args)]
struct Rss {
    /// The most distinct keys
    #[arg(long, default_value_t = bench::RSS_KEYS)]
    keys: u64,
}

/// Adds keys to one contender and prints this process's memory.
#[derive(Args)]
struct RssChild {
    contender: String,
    keys: Vec<u64>,
}

/// Sprays distinct keys into a bounded store while a hot key asks far more often than it may.
///
/// Ends with status 1 if the process grew to 1.25 times the store's bound, if the store counts more than its
/// bound, or if the hot key was admitted more or less often than its limit allows.
#[derive(Args)]
struct SprayArgs {
    /// Distinct keys
    #[arg(long, default_value_t = 50_000_000)]
    keys: u64,
    /// How often each of them asks, in a row
    #[arg(long, default_value_t = 1)]
    asks: u64,
    /// The store's bound, for example 256MiB
    #[arg(long, default_value = "256MiB")]
    memory_max: Bytes,
    /// How the sprayed keys are limited; several, separated by commas, run in a process each
    #[arg(long, value_delimiter = ',', default_values = ["gcra", "fixed_window"])]
    algorithm: Vec<AlgorithmName>,
    /// The limit of the sprayed keys instead of 10 per hour, for example "{algorithm: gcra, limit: 5 per 1m}"
    #[arg(long, conflicts_with = "algorithm")]
    limit: Option<String>,
    /// The hot key's limit; it has to reset later than those of the sprayed keys to be kept
    #[arg(long, default_value = "1000 per day")]
    hot_limit: String,
    /// The hot key asks once after this many others
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    hot_every: u64,
    /// Nanoseconds from one ask to the next
    #[arg(long, default_value_t = 1_000)]
    step_ns: u64,
}

/// Draws what each algorithm and pacer makes of the same bursty trace, an SVG each, and one of all algorithms.
///
/// The decisions are those of the real limiter and pacer; the files are the same to the byte in every run.
#[derive(Args)]
struct PicturesArgs {
    /// Where to; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "docs/pictures")]
    out: PathBuf,
}

/// Times every decision of one thread while another writes a snapshot, and as many while none is written.
///
/// Fails nothing. The longest decision depends on what else the machine does more than on anything else.
#[derive(Args)]
struct SnapshotArgs {
    /// Keys in the store
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// How they are limited
    #[arg(long, default_value = "gcra")]
    algorithm: AlgorithmName,
    /// Where the file is written, and removed at the end, instead of the system's temporary directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Prints what a request costs `tidegate serve` and other servers, side by side, and whether the goals were met.
///
/// Servers run on this machine alone and take turns, several rounds, under the load of redis-benchmark, wrk and h2load.
/// Figures are processor time of the server per million requests, its own code and the kernel's apart: the median of the
/// rounds. `scripts/bench-server` installs all that is needed and runs this; what is not there is said.
#[derive(Args)]
struct ServerArgs {
    /// Turns of each server under each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Requests in a turn; eight times as many with a pipeline
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    requests: u64,
    /// Only this load or this server; may be given several times, or several separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = server::Only::parse)]
    only: Vec<server::Only>,
    /// The program to measure instead of the one beside this
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Where scripts/bench-server has put the other servers
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    peers: PathBuf,
}

/// Prints what a decision costs whose counters are in Redis, beside others that do that, on one Redis.
///
/// Everybody has 64 decisions in flight and takes turns with the others, several rounds. Figures are processor time of Redis
/// and of whoever asks it: the median of the rounds. `scripts/bench-fleet` installs all that is needed and runs this; what
/// is not there is said.
#[derive(Args)]
struct FleetArgs {
    /// Turns of each contender
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Decisions in a turn
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    decisions: u64,
    /// The program to measure instead of the one beside this
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Where scripts/bench-server has put the other servers
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    peers: PathBuf,
}

/// Decides as often as it is told.
#[derive(Args)]
struct FleetWorker {
    contender: String,
    redis_port: u16,
}

/// Answers every request alike until it is killed.
#[derive(Args)]
struct EmptyServer {
    #[arg(long)]
    resp: SocketAddr,
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    grpc: SocketAddr,
}

/// Counts and writes snapshots until it is killed.
#[derive(Args)]
struct SnapshotChild {
    directory: PathBuf,
}

/// Runs the subcommand that the arguments name.
pub fn run() -> ExitCode {
    match Lab::parse().command {
        Task::Bench(Bench { quick, sections }) => bench::run(quick, &sections),
        Task::Matching(MatchingArgs { quick }) => matching::run(quick),
        Task::Rss(Rss { keys }) => bench::run_rss(keys),
        Task::RssChild(RssChild { contender, keys }) => bench::run_rss_child(&contender, &keys),
        Task::Spray(args) => return spray(&args),
        Task::Pictures(args) => return draw(&args),
        Task::Snapshot(args) => return snapshot(args),
        Task::Server(args) => return measure_servers(args),
        Task::Fleet(args) => return measure_fleet(args),
        Task::FleetWorker(FleetWorker { contender, redis_port }) => {
            return server::fleet::run_worker(&contender, redis_port);
        }
        Task::EmptyServer(EmptyServer { resp, http, grpc }) => {
            return server::run_empty(server::Empty { resp, http, grpc });
        }
        Task::SnapshotChild(SnapshotChild { directory }) => return snapshot_child::run(&directory),
    }
    ExitCode::SUCCESS
}

fn spray(args: &SprayArgs) -> ExitCode {
    if args.limit.is_none() && args.algorithm.len() > 1 {
        return spray_each(args);
    }
    spray_one(args, args.algorithm.first().copied().unwrap_or_default())
}

/// A process each, for what one of them leaves in memory would count against the next.
fn spray_each(args: &SprayArgs) -> ExitCode {
    let Ok(exe) = std::env::current_exe() else {
        eprintln!("cannot find this program's own file (hint: name one --algorithm)");
        return ExitCode::FAILURE;
    };
    let mut all_well = true;
    for algorithm in &args.algorithm {
        let mut child = Command::new(&exe);
        child.arg("spray").args(["--algorithm", algorithm.as_str(), "--hot-limit", &args.hot_limit]);
        child.args(["--keys", &args.keys.to_string(), "--memory-max", &args.memory_max.0.to_string()]);
        child.args(["--hot-every", &args.hot_every.to_string(), "--step-ns", &args.step_ns.to_string()]);
        child.args(["--asks", &args.asks.to_string()]);
        all_well &= child.status().is_ok_and(|status| status.success());
    }
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn spray_one(args: &SprayArgs, algorithm: AlgorithmName) -> ExitCode {
    let mut spray = Spray::new(args.keys, args.memory_max, algorithm);
    spray.hot_limit.clone_from(&args.hot_limit);
    (spray.asks_per_key, spray.hot_every_keys, spray.step_ns) = (args.asks, args.hot_every, args.step_ns);
    if let Some(limit) = &args.limit {
        spray.limit.clone_from(limit);
    }
    let bar = key_bar(args.keys);
    let report = spray.run(|keys| bar.set_position(keys));
    bar.finish_and_clear();
    match report {
        Ok(report) => {
            print!("{report}");
            if process::resident().is_none() {
                println!("  resident memory is not checked: there is no /proc here");
            }
            if report.broken().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn draw(args: &PicturesArgs) -> ExitCode {
    match pictures::write_all(&args.out) {
        Ok(pictures) => {
            for picture in pictures {
                println!("{}  {}", args.out.join(&picture.file_name).display(), picture.figures);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn snapshot(args: SnapshotArgs) -> ExitCode {
    let directory = args.directory.unwrap_or_else(std::env::temp_dir);
    let bar = key_bar(args.keys);
    let measurement = Measurement { keys: args.keys, algorithm: args.algorithm, directory };
    let report = measurement.run(|keys| bar.set_position(keys));
    bar.finish_and_clear();
    match report {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Cargo puts all programs of a build side by side.
fn tidegate_beside() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("tidegate")
}

fn measure_fleet(args: FleetArgs) -> ExitCode {
    server::fleet::run(&server::Options {
        rounds: usize::from(args.rounds),
        requests: args.decisions,
        only: Vec::new(),
        tidegate: args.tidegate.unwrap_or_else(tidegate_beside),
        peers: args.peers,
    })
}

fn measure_servers(args: ServerArgs) -> ExitCode {
    server::run(&server::Options {
        rounds: usize::from(args.rounds),
        requests: args.requests,
        only: args.only,
        tidegate: args.tidegate.unwrap_or_else(tidegate_beside),
        peers: args.peers,
    })
}

/// Draws on a terminal only.
fn key_bar(keys: u64) -> ProgressBar {
    let bar = ProgressBar::new(keys);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} keys, {eta} left") {
        bar.set_style(style);
    }
    bar
}
