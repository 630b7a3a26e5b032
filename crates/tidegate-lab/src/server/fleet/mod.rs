//! What a decision costs over Redis: Tidegate's store beside a plain script, limitador, and servers, on one Redis.
//!
//! ```text
//! contender   who decides, with which limit, for which keys
//! worker/     a process that decides: 64 at a time, as often as it is told
//! racing      a contender that runs, and what one turn of it took: of the worker and of Redis
//! report      the table, and what was wanted
//! ```
//!
//! Contenders take turns, several rounds, on an empty Redis each time. Processor time counts, that of Redis and that of
//! whoever asks it apart. Whoever asks is a process of its own, so that nothing else is in its figures.

#[cfg_attr(
    not(feature = "peers"),
    allow(dead_code, reason = "some of it only workers need, and there are none")
)]
mod contender;
mod racing;
mod report;
mod worker;

use std::process::ExitCode;

pub use worker::run as run_worker;

use contender::Contender;
use racing::{Racing, Redis};
use report::Report;

use super::{Options, Scratch, load_average, turns_bar};
use crate::bench::print_machine;

/// Decisions that are under way at once.
const IN_FLIGHT: u32 = 64;

/// Measures and prints. Fails only if nothing could be measured.
pub fn run(options: &Options) -> ExitCode {
    print_machine();
    println!(
        "{} rounds, {} decisions in a turn, {IN_FLIGHT} in flight; {}",
        options.rounds,
        options.requests,
        load_average()
    );
    match measure(options) {
        Ok(report) => {
            print!("{report}");
            println!("{}", load_average());
            if report.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<Report, String> {
    let scratch = Scratch::new().map_err(|error| {
        format!("cannot make a directory for files (hint: set TMPDIR to one that can be written to): {error}")
    })?;
    let redis = Redis::start(&scratch)?;
    let mut report = Report::default();
    let mut racing: Vec<(&'static Contender, Racing)> = Vec::new();
    for contender in Contender::all() {
        match Racing::start(contender, &redis, options, &scratch) {
            Ok(one) => racing.push((contender, one)),
            Err(why) => report.failed(contender, why),
        }
    }
    let bar = turns_bar(options.rounds * racing.len());
    for round in 0..options.rounds {
        for step in 0..racing.len() {
            let at = (round + step) % racing.len();
            let (contender, one) = &mut racing[at];
            bar.set_message(contender.name);
            match redis.flush().and_then(|()| one.turn(&redis, options.requests, &scratch)) {
                Ok(turn) => report.took(contender, turn),
                Err(why) => report.failed(contender, why),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(report)
}
