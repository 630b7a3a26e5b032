//! The subcommands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate::AlgorithmName;

use crate::apply_times::{self, ApplyTimes};
use crate::bench::{self, Section};
use crate::config_store::{ConfigStoreMeasurement, EngineName};
use crate::modes::{self, ModesMeasurement};
use crate::overrides::{self, OverridesMeasurement};
use crate::proxy::{self, AxumKind};
use crate::server::EmptyServerAddresses;
use crate::simulate::{self, ModeName, Mutation};
use crate::snapshot::Measurement;
use crate::spray::Spray;
use crate::{Bytes, config_store_child, fleet, matching, pictures, process, server, snapshot_child};

/// Measures Tidegate: speed compared with other rate limiters, memory per key, and bounds under a flood of keys. Also
/// draws pictures of the algorithms.
///
/// Build with --release; figures of a debug build mean nothing. Build with --features peers to compare with other rate
/// limiters (governor, throttlecrab, limitador, pingora-limits) and clocks.
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
  cargo run --release -p tidegate-lab --features proxy -- proxy --rounds 3
  cargo run --release -p tidegate-lab --features peers -- fleet --rounds 3
  cargo run --release -p tidegate-lab --features peers -- rss --keys 10000000
  cargo run --release -p tidegate-lab -- spray --keys 50000000 --memory-max 256MiB
  cargo run --release -p tidegate-lab -- spray --keys 11000000 --limit '1 per day' --hot-limit '10 per minute' --step-ns 727
  cargo run --release -p tidegate-lab -- snapshot --keys 10000000
  cargo run --release -p tidegate-lab -- config-store --entries 10000000
  cargo run --release -p tidegate-lab -- overrides
  cargo run --release -p tidegate-lab -- apply-times -- --store redis://127.0.0.1:6379
  cargo run --release -p tidegate-lab --features caches -- caches
  cargo run --release -p tidegate-lab -- simulate --seeds 100000
  cargo run --release -p tidegate-lab -- simulate --scale
  cargo run -p tidegate-lab -- pictures";

#[derive(Subcommand)]
enum Task {
    Bench(BenchArgs),
    Matching(MatchingArgs),
    Rss(RssArgs),
    Spray(SprayArgs),
    Snapshot(SnapshotArgs),
    ConfigStore(ConfigStoreArgs),
    Overrides(OverridesArgs),
    ApplyTimes(ApplyTimesArgs),
    /// Compares caches for overrides: time of a look-up, memory, hit rate.
    #[cfg(feature = "caches")]
    Caches,
    Modes(ModesArgs),
    Simulate(SimulateArgs),
    Pictures(PicturesArgs),
    Server(ServerArgs),
    Proxy(ProxyArgs),
    Fleet(FleetArgs),
    #[command(hide = true)]
    ConfigStoreChild(ConfigStoreChildArgs),
    #[command(hide = true)]
    AxumServer(AxumServerArgs),
    #[command(hide = true)]
    EmptyServer(EmptyServerArgs),
    #[command(hide = true)]
    FleetWorker(FleetWorkerArgs),
    #[command(hide = true)]
    RssChild(RssChildArgs),
    #[command(hide = true)]
    SnapshotChild(SnapshotChildArgs),
}

/// Prints the cost of a decision for all contenders in one run, and whether it meets the goals.
///
/// Contenders take turns for many rounds, so that other work on the machine affects all of them equally. Figures are
/// CPU time per decision: the minimum and the median of the rounds.
///
/// Sections: speed (four kinds of traffic, one thread and two), denial (a key over its limit), ledgers (sub_windows and
/// sliding_log by size), rss (memory per key), clocks.
#[derive(Args)]
struct BenchArgs {
    /// Fewer and shorter rounds, fewer keys: tens of seconds instead of minutes, but more noise
    #[arg(long)]
    quick: bool,
    /// Only this section; can be repeated
    #[arg(long = "section", value_name = "NAME", value_parser = Section::parse)]
    sections: Vec<Section>,
}

/// Prints the cost of finding the rules that match a request, by the number and the conditions of the rules.
///
/// The numbers of rules take turns for many rounds. Figures are CPU time per request. With --features peers, the same
/// run measures limitador too.
#[derive(Args)]
struct MatchingArgs {
    /// Fewer rounds, but more noise
    #[arg(long)]
    quick: bool,
}

/// Prints the memory of a live key, each contender in its own process.
#[derive(Args)]
struct RssArgs {
    /// The largest number of distinct keys
    #[arg(long, default_value_t = bench::RSS_KEYS)]
    keys: u64,
}

/// Adds keys to one contender and prints the growth of this process.
#[derive(Args)]
struct RssChildArgs {
    contender: String,
    keys: Vec<u64>,
}

/// Sprays distinct keys into a bounded store while a hot key sends far more requests than its limit allows.
///
/// Exits with status 1 if the process grew to 1.25 times the store's bound, if the store counts more than its bound, or
/// if the hot key was admitted more or less often than its limit allows.
#[derive(Args)]
struct SprayArgs {
    /// Distinct keys
    #[arg(long, default_value_t = 50_000_000)]
    keys: u64,
    /// Requests per key, in a row
    #[arg(long, default_value_t = 1)]
    asks: u64,
    /// The memory bound of the store, for example 256MiB
    #[arg(long, default_value = "256MiB")]
    memory_max: Bytes,
    /// The algorithm for the sprayed keys; several, separated by commas, run in separate processes
    #[arg(long, value_delimiter = ',', default_values = ["gcra", "fixed_window"])]
    algorithm: Vec<AlgorithmName>,
    /// The limit of each sprayed key instead of 10 per hour, for example "{algorithm: gcra, limit: 5 per 1m}"
    #[arg(long, conflicts_with = "algorithm")]
    limit: Option<String>,
    /// The limit of the hot key
    #[arg(long, default_value = "1000 per day")]
    hot_limit: String,
    /// The hot key sends one request per this many sprayed keys
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    hot_every: u64,
    /// Nanoseconds from one request to the next
    #[arg(long, default_value_t = 1_000)]
    step_ns: u64,
}

/// Simulates a fleet with faults, once per seed, and checks that each mode keeps to its bound.
///
/// Nodes run the real code of the modes on simulated clocks, network and servers. Exits with status 1 if a seed fails.
#[derive(Args)]
struct SimulateArgs {
    /// How many seeds to run, on all cores
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed, and print all that happens
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Only scenarios in this mode; can be repeated
    #[arg(long = "mode", value_name = "MODE", value_parser = ModeName::parse)]
    modes: Vec<ModeName>,
    /// Inject this bug, which the checker must find
    #[arg(long, value_name = "NAME", value_parser = Mutation::parse)]
    mutation: Option<Mutation>,
    /// Measure how calls to the shared store grow with nodes and keys, up to 1,000 nodes and 1 million keys
    #[arg(long, conflicts_with_all = ["seeds", "first", "seed", "modes", "mutation"])]
    scale: bool,
    /// With --scale, the directory for the picture
    #[arg(long, default_value = "docs", requires = "scale")]
    out: PathBuf,
}

/// Draws how each algorithm and pacer handles the same requests, one SVG each, and an overview of all algorithms.
///
/// The decisions are those of the real limiter and pacer. Every run writes the same bytes.
#[derive(Args)]
struct PicturesArgs {
    /// The directory to write to, created if necessary
    #[arg(long, value_name = "DIR", default_value = "docs/pictures")]
    out: PathBuf,
}

/// Times every decision of one thread while another thread writes a snapshot, and the same number while none is
/// written.
///
/// The longest decision mostly depends on what else the machine does.
#[derive(Args)]
struct SnapshotArgs {
    /// Keys in the store
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// The algorithm of their limit
    #[arg(long, default_value = "gcra")]
    algorithm: AlgorithmName,
    /// The directory for the file, which is removed at the end, instead of the system's temporary directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Loads overrides into the config store and prints disk space, load time, look-ups cold and warm, and memory.
///
/// Says before it starts how much disk it needs and whether that is free. Build with --features fjall for --engine fjall.
#[derive(Args)]
struct ConfigStoreArgs {
    /// Overrides to load
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    entries: u64,
    /// redb, as the server uses it, or fjall
    #[arg(long, default_value = "redb")]
    engine: EngineName,
    /// Memory for pages of the store
    #[arg(long, default_value = "64MiB")]
    cache: Bytes,
    /// The most memory for the filter of keys
    #[arg(long, default_value = "128MiB")]
    filter: Bytes,
    /// The directory for the store, which is removed at the end, instead of the system's temporary directory
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Writes to a config store until it is killed or a write fails.
#[derive(Args)]
struct ConfigStoreChildArgs {
    directory: PathBuf,
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[arg(long)]
    file_bytes_max: Option<u64>,
}

/// Prints the cost of a request to `tidegate serve` and other servers in one run, and whether it meets the goals.
///
/// Servers run on this machine and take turns for several rounds, under the load of redis-benchmark, wrk and h2load.
/// Figures are CPU time of the server per million requests, its own code and the kernel's separately: the median of the
/// rounds. `scripts/bench-server` installs everything and runs this command. The report lists missing programs.
#[derive(Args)]
struct ServerArgs {
    /// Turns of each server under each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Requests in a turn; eight times this number with a pipeline
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    requests: u64,
    /// Only this load or server; can be repeated, or several separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = server::Only::parse)]
    only: Vec<server::Only>,
    /// The program `tidegate`, instead of the one in the directory of this program
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// The directory where scripts/bench-server puts other servers
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    peers: PathBuf,
}

/// Prints the cost of a decision with counters in Redis, for Tidegate and others on one Redis.
///
/// All have 64 decisions in flight and take turns for several rounds. Figures are CPU time of Redis and of its client:
/// the median of the rounds. `scripts/bench-fleet` installs everything and runs this command. The report lists missing
/// programs.
#[derive(Args)]
struct FleetArgs {
    /// Turns of each case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Decisions in a turn
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    decisions: u64,
    /// The program `tidegate`, instead of the one in the directory of this program
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// The directory where scripts/bench-server puts other servers
    #[arg(long, value_name = "DIR", default_value = "target/bench-peers")]
    peers: PathBuf,
}

/// Makes decisions for the fleet benchmark.
#[derive(Args)]
struct FleetWorkerArgs {
    case: String,
    redis_port: u16,
}

/// Sends the same answer to every request until it is killed.
#[derive(Args)]
struct EmptyServerArgs {
    #[arg(long)]
    resp: SocketAddr,
    #[arg(long)]
    http: SocketAddr,
    #[arg(long)]
    grpc: SocketAddr,
}

/// Counts and writes snapshots until it is killed.
#[derive(Args)]
struct SnapshotChildArgs {
    directory: PathBuf,
}

/// Prints the CPU time of a server per decision with and without overrides, and how long an import takes.
#[derive(Args)]
struct OverridesArgs {
    /// How many keys have an override
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=99_999_999))]
    keys: u64,
    /// Turns of each server
    #[arg(long, default_value_t = 7)]
    rounds: u16,
    /// Decisions in a turn over RESP; a fifth of them over HTTP and gRPC
    #[arg(long, default_value_t = 1_000_000)]
    decisions: u64,
    /// The program to measure; default: the one of the same build
    #[arg(long)]
    tidegate: Option<PathBuf>,
}

/// Starts fleets of real nodes on one Redis, and prints what each mode admits above the limit and what a decision costs.
///
/// Needs redis-server. It takes about five minutes.
#[derive(Args)]
struct ModesArgs {
    /// Windows of two seconds for each case above the limit
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=1000))]
    windows: u32,
    /// Decisions for each figure of costs
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    decisions: u64,
    /// The program to measure; default: the one of the same build
    #[arg(long)]
    tidegate: Option<PathBuf>,
}

/// Starts a fleet, sets overrides on its nodes in turn, and prints after which time all nodes apply them.
///
/// `scripts/bench-config` starts the stores and runs this command for each of them.
#[derive(Args)]
struct ApplyTimesArgs {
    /// Nodes of the fleet
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=64))]
    nodes: u16,
    /// How many overrides are set
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    changes: u16,
    /// The program `tidegate`, instead of the one in the directory of this program
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Arguments of each node, such as `--store redis://127.0.0.1:6379`
    #[arg(last = true, required = true, value_name = "SERVE ARGUMENTS")]
    serve_args: Vec<String>,
}

/// Prints the CPU time of a request through axum programs and nginx, with and without a limiter.
///
/// scripts/bench-proxy installs wrk and nginx, and builds everything.
#[derive(Args)]
struct ProxyArgs {
    /// Turns of each contender
    #[arg(long, default_value_t = 7)]
    rounds: u8,
    /// The length of a turn in seconds
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// The program `tidegate`. The default is the one of the same build
    #[arg(long, value_name = "PATH")]
    tidegate: Option<PathBuf>,
}

/// Runs an axum server with one kind of limiter.
#[derive(Args)]
struct AxumServerArgs {
    kind: AxumKind,
    address: SocketAddr,
}

/// Runs the subcommand that the arguments name.
pub fn run() -> ExitCode {
    match Lab::parse().command {
        Task::Bench(BenchArgs { quick, sections }) => bench::run(quick, &sections),
        Task::Matching(MatchingArgs { quick }) => matching::run(quick),
        Task::Rss(RssArgs { keys }) => drop(bench::run_rss(keys)),
        Task::RssChild(RssChildArgs { contender, keys }) => bench::run_rss_child(&contender, &keys),
        Task::Spray(args) => return spray(&args),
        Task::Simulate(args) => return simulate_fleet(args),
        Task::Pictures(args) => return draw(&args),
        Task::Snapshot(args) => return snapshot(args),
        Task::ConfigStore(args) => return measure_config_store(args),
        Task::Overrides(args) => return measure_overrides(args),
        Task::ApplyTimes(args) => return measure_apply_times(args),
        Task::Modes(args) => return measure_modes(args),
        #[cfg(feature = "caches")]
        Task::Caches => crate::caches::run(),
        Task::ConfigStoreChild(ConfigStoreChildArgs { directory, from, file_bytes_max }) => {
            return config_store_child::run(&directory, from, file_bytes_max);
        }
        Task::Server(args) => return measure_servers(args),
        Task::Proxy(args) => return measure_proxies(args),
        Task::AxumServer(AxumServerArgs { kind, address }) => return proxy::run_axum(kind, address),
        Task::Fleet(args) => return measure_fleet(args),
        Task::FleetWorker(FleetWorkerArgs { case, redis_port }) => {
            return fleet::run_worker(&case, redis_port);
        }
        Task::EmptyServer(EmptyServerArgs { resp, http, grpc }) => {
            return server::run_empty(EmptyServerAddresses { resp, http, grpc });
        }
        Task::SnapshotChild(SnapshotChildArgs { directory }) => return snapshot_child::run(&directory),
    }
    ExitCode::SUCCESS
}

fn spray(args: &SprayArgs) -> ExitCode {
    if args.limit.is_none() && args.algorithm.len() > 1 {
        return spray_each(args);
    }
    spray_one(args, args.algorithm.first().copied().unwrap_or_default())
}

/// Runs each algorithm in its own process, because memory that one leaves would count for the next.
fn spray_each(args: &SprayArgs) -> ExitCode {
    let Ok(exe) = std::env::current_exe() else {
        eprintln!("cannot find the file of this program (hint: name only one --algorithm)");
        return ExitCode::FAILURE;
    };
    let mut all_passed = true;
    for algorithm in &args.algorithm {
        let mut child = Command::new(&exe);
        child.arg("spray").args(["--algorithm", algorithm.as_str(), "--hot-limit", &args.hot_limit]);
        child.args(["--keys", &args.keys.to_string(), "--memory-max", &args.memory_max.0.to_string()]);
        child.args(["--hot-every", &args.hot_every.to_string(), "--step-ns", &args.step_ns.to_string()]);
        child.args(["--asks", &args.asks.to_string()]);
        all_passed &= child.status().is_ok_and(|status| status.success());
    }
    if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn spray_one(args: &SprayArgs, algorithm: AlgorithmName) -> ExitCode {
    let mut spray = Spray::new(args.keys, args.memory_max, algorithm);
    spray.hot_limit.clone_from(&args.hot_limit);
    (spray.requests_per_key, spray.hot_every_keys, spray.step_ns) = (args.asks, args.hot_every, args.step_ns);
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
                println!("  resident memory was not checked: this system has no /proc");
            }
            if report.broken().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate_fleet(args: SimulateArgs) -> ExitCode {
    let SimulateArgs { seeds, first, seed, modes, mutation, scale, out } = args;
    if scale {
        return simulate::run_scale(&out);
    }
    let modes = if modes.is_empty() { ModeName::ALL.to_vec() } else { modes };
    let (first, seeds) = seed.map_or((first, seeds), |seed| (seed, 1));
    simulate::run(&simulate::Options { first, seeds, modes, mutation, is_traced: seed.is_some() })
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

fn measure_config_store(args: ConfigStoreArgs) -> ExitCode {
    let measurement = ConfigStoreMeasurement {
        entries: args.entries,
        engine: args.engine,
        cache: args.cache,
        filter: args.filter,
        directory: args.directory.unwrap_or_else(std::env::temp_dir),
    };
    let report = measurement.check_disk().and_then(|space| {
        println!("{space}");
        let bar = key_bar(args.entries);
        let report = measurement.run(|entries| bar.set_position(entries));
        bar.finish_and_clear();
        report
    });
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

fn measure_overrides(args: OverridesArgs) -> ExitCode {
    overrides::run(&OverridesMeasurement {
        keys: args.keys,
        rounds: usize::from(args.rounds),
        decisions: args.decisions,
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
    })
}

fn measure_modes(args: ModesArgs) -> ExitCode {
    modes::run(&ModesMeasurement {
        windows: args.windows,
        decisions: args.decisions,
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
    })
}

fn measure_apply_times(args: ApplyTimesArgs) -> ExitCode {
    apply_times::run(&ApplyTimes {
        nodes: args.nodes,
        changes: args.changes,
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
        serve_args: args.serve_args,
    })
}

/// Cargo puts all programs of a build into one directory.
fn tidegate_of_same_build() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("tidegate")
}

fn measure_fleet(args: FleetArgs) -> ExitCode {
    fleet::run(&server::Options {
        rounds: usize::from(args.rounds),
        requests: args.decisions,
        only: Vec::new(),
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
        peers: args.peers,
    })
}

fn measure_proxies(args: ProxyArgs) -> ExitCode {
    proxy::run(&proxy::Options {
        rounds: usize::from(args.rounds),
        seconds: args.seconds,
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
    })
}

fn measure_servers(args: ServerArgs) -> ExitCode {
    server::run(&server::Options {
        rounds: usize::from(args.rounds),
        requests: args.requests,
        only: args.only,
        tidegate: args.tidegate.unwrap_or_else(tidegate_of_same_build),
        peers: args.peers,
    })
}

/// A progress bar, which is only drawn on a terminal.
fn key_bar(keys: u64) -> ProgressBar {
    let bar = ProgressBar::new(keys);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} keys, {eta} left") {
        bar.set_style(style);
    }
    bar
}
