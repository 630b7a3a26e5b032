//! The cost of a request to a server: `tidegate serve` and other servers in one run.
//!
//! ```text
//! load_kind   a protocol, and how many requests are in flight     only      the values of `--only`
//! target      a server, its request, and the right answer         program   how to start each server
//! running     a running server, its ports and its log             turn      one load and its CPU time
//! check       sends one request and checks the answer             load/     runs load generators
//! empty/      servers that decide nothing, to compare with        report, goals    the tables
//! ```
//!
//! Servers take turns for several rounds, so that other work on the machine affects all of them equally. The result is
//! the CPU time of a server per request, its own code and the kernel's separately. Requests per second say little on a
//! machine where the load generator runs too. Every turn checks one answer before and one after. A server whose load
//! generator reports an error is not measured any further.

pub(crate) mod check;
mod empty;
mod goals;
pub(crate) mod grpc_call;
pub(crate) mod load;
pub(crate) mod load_kind;
mod only;
pub(crate) mod program;
mod report;
pub(crate) mod running;
pub(crate) mod target;
mod turn;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

pub use empty::{EmptyServerAddresses, run as run_empty};
pub use load_kind::LoadKind;
pub use only::Only;

use program::{Missing, Program};
use report::LoadReport;
use running::RunningServer;
use target::Target;
use turn::TurnSize;

use crate::goals::print as print_goals;
use crate::measure::WallTime;
use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;

/// What to measure, and for how long.
pub struct Options {
    /// Turns of each server.
    pub rounds: usize,
    /// Requests in a turn; eight times this number with a pipeline.
    pub requests: u64,
    /// Restricts loads and servers; empty for all.
    pub only: Vec<Only>,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
    /// The directory where `scripts/bench-server` puts other servers.
    pub peers: PathBuf,
}

/// The running servers, and the missing programs.
#[derive(Default)]
struct Programs {
    running: BTreeMap<Program, RunningServer>,
    missing: BTreeMap<Program, Missing>,
}

/// Measures and prints. Fails only if no server could be measured.
pub fn run(options: &Options) -> ExitCode {
    let wall = WallTime::start();
    print_machine();
    println!("{} rounds, {} requests in a turn; {}", options.rounds, options.requests, load_average());
    let scratch = match ScratchDir::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            eprintln!(
                "cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)"
            );
            return ExitCode::FAILURE;
        }
    };
    let mut programs = Programs::default();
    let mut reports: Vec<LoadReport> = Vec::new();
    for load in LoadKind::ALL {
        let targets: Vec<Target> =
            Target::all(load).into_iter().filter(|target| target.is_included(load, &options.only)).collect();
        if targets.is_empty() {
            continue;
        }
        let report = measure(load, targets, options, &scratch, &mut programs);
        print!("{}", report.table());
        reports.push(report);
    }
    print!("{}", report::missing(&programs.missing));
    print_goals(&goals::goals(&reports));
    println!("{}; took {:.0} s", load_average(), wall.elapsed_ns() as f64 / 1e9);
    if reports.iter().any(LoadReport::has_any) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lets the servers take turns.
fn measure(
    load: LoadKind,
    targets: Vec<Target>,
    options: &Options,
    scratch: &ScratchDir,
    programs: &mut Programs,
) -> LoadReport {
    let mut report = LoadReport::new(load);
    for target in targets {
        if let Some(running) = programs.start(target.program, options, scratch) {
            let warm_up = turn::warm_up(load, &target, running, options.requests, scratch);
            report.add(target, warm_up);
        }
    }
    let bar = turns_bar(options.rounds * report.targets());
    for round in 0..options.rounds {
        for step in 0..report.targets() {
            report.turn((round + step) % report.targets(), |target, per_second| {
                bar.set_message(format!("{}: {}", load.name(), target.name));
                let running = programs.running.get(&target.program)?;
                let size = TurnSize { requests: options.requests, per_second };
                Some(turn::take(load, target, running, size, scratch))
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    report
}

impl Programs {
    /// Starts a program if it is not running. If it is missing, the reason is kept for the report.
    fn start(&mut self, program: Program, options: &Options, scratch: &ScratchDir) -> Option<&RunningServer> {
        if !self.running.contains_key(&program) && !self.missing.contains_key(&program) {
            match program.start(options, scratch) {
                Ok(running) => {
                    self.running.insert(program, running);
                }
                Err(missing) => {
                    self.missing.insert(program, missing);
                }
            }
        }
        self.running.get(&program)
    }
}

/// A progress bar, which is only drawn on a terminal.
pub(crate) fn turns_bar(turns: usize) -> ProgressBar {
    let bar = ProgressBar::new(turns as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} turns, {eta} left, {msg}") {
        bar.set_style(style);
    }
    bar
}
