//! What a request costs a server: `tidegate serve` beside its peers, in one run.
//!
//! ```text
//! shape       what is spoken, and how many requests are under way at once
//! contender   who is asked what, and which answer is right
//! program     the server programs: where they are, how they start     running   a process, its end, its log
//! ask/        one request, and its answer checked                     load/     very many, by a load generator
//! cpu         processor time of a process                             turn      the two together
//! empty/      servers that decide nothing, to compare with            report, goals    the tables
//! fleet/      the same question for counters in Redis
//! ```
//!
//! Servers take turns, several rounds, so that whatever else the machine does hits all of them alike. What counts
//! is the processor time that a server takes for a request, its own code and the kernel's apart: on a machine where
//! the load generator and others run too, requests per second are mostly the others. A server is asked once before
//! and once after it is measured, and what the load generator calls an error ends the run of that server.

mod ask;
mod contender;
mod cpu;
mod empty;
pub mod fleet;
mod goals;
mod load;
mod naming;
mod program;
mod report;
mod running;
mod scratch;
mod shape;
mod turn;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

pub use empty::{Empty, run as run_empty};
pub use naming::Only;
pub use shape::Shape;

use contender::Contender;
use goals::Goals;
use program::{Missing, Program};
use report::Measured;
use running::Running;
use scratch::Scratch;

use crate::bench::print_machine;
use crate::stopwatch::WallTime;

/// What to measure, and how long.
pub struct Options {
    /// Turns of each server.
    pub rounds: usize,
    /// Requests in a turn, without a pipeline; with one there are [`load::PIPELINED_TIMES`] as many.
    pub requests: u64,
    /// Only what these name; everything if there are none.
    pub only: Vec<Only>,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
    /// Where `scripts/bench-server` has put the peers.
    pub peers: PathBuf,
}

/// The programs that run, and those that are not there.
#[derive(Default)]
struct Programs {
    running: BTreeMap<Program, Running>,
    missing: BTreeMap<Program, Missing>,
}

/// Measures and prints. Fails only if nothing could be measured.
pub fn run(options: &Options) -> ExitCode {
    let wall = WallTime::start();
    print_machine();
    println!("{} rounds, {} requests in a turn; {}", options.rounds, options.requests, load_average());
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            eprintln!(
                "cannot make a directory for files (hint: set TMPDIR to one that can be written to): {error}"
            );
            return ExitCode::FAILURE;
        }
    };
    let mut programs = Programs::default();
    let mut goals = Goals::default();
    let mut measured_any = false;
    for shape in Shape::ALL {
        let contenders = Contender::all(shape).into_iter().filter(|one| one.is_wanted(shape, &options.only));
        let contenders: Vec<Contender> = contenders.collect();
        if contenders.is_empty() {
            continue;
        }
        let measured = measure(shape, contenders, options, &scratch, &mut programs);
        measured_any |= measured.has_any();
        print!("{}", measured.table());
        goals.take(measured);
    }
    print!("{}", report::missing(&programs.missing));
    print!("{goals}");
    println!("{}; took {:.0} s", load_average(), wall.elapsed_ns() as f64 / 1e9);
    if measured_any { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lets the contenders take turns.
fn measure(
    shape: Shape,
    contenders: Vec<Contender>,
    options: &Options,
    scratch: &Scratch,
    programs: &mut Programs,
) -> Measured {
    let mut measured = Measured::new(shape);
    for contender in contenders {
        if let Some(running) = programs.start(contender.program, options, scratch) {
            let ready = turn::warm_up(shape, &contender, running, options.requests, scratch);
            measured.enter(contender, ready);
        }
    }
    let bar = turns_bar(options.rounds * measured.entered());
    for round in 0..options.rounds {
        for step in 0..measured.entered() {
            measured.turn((round + step) % measured.entered(), |contender, per_second| {
                bar.set_message(format!("{}: {}", shape.name(), contender.name));
                let running = programs.running.get(&contender.program)?;
                Some(turn::take(
                    shape,
                    contender,
                    running,
                    turn::Size { requests: options.requests, per_second },
                    scratch,
                ))
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    measured
}

impl Programs {
    /// The program, running; none if it is not there, which is kept to be said.
    fn start(&mut self, program: Program, options: &Options, scratch: &Scratch) -> Option<&Running> {
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

/// Draws on a terminal only.
fn turns_bar(turns: usize) -> ProgressBar {
    let bar = ProgressBar::new(turns as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} turns, {eta} left, {msg}") {
        bar.set_style(style);
    }
    bar
}

/// How busy the machine is, to judge the figures by.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
