//! The cost of a decision with counters in Redis: Tidegate's store, a plain script, limitador and servers on one Redis.
//!
//! ```text
//! case      what decides, with which limit, for which keys
//! runner    runs a case and measures a turn: the CPU time of Redis and of its client
//! worker/   a process that makes 64 decisions at a time
//! report    the table and the goals
//! ```
//!
//! Cases take turns for several rounds, each time on an empty Redis. The result is the CPU time of Redis and of its
//! client. The client is a separate process, so that its CPU time contains nothing else.

#[cfg_attr(
    not(feature = "peers"),
    allow(dead_code, reason = "only workers need some of it, and they need the feature")
)]
mod case;
mod report;
mod runner;
mod worker;

use std::process::ExitCode;

pub use worker::run as run_worker;

use case::{Case, DecidedBy};
use report::FleetReport;
use runner::{RedisServer, Runner};

use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;
use crate::server::{Options, turns_bar};

/// Decisions in flight.
const IN_FLIGHT: u32 = 64;

/// Measures and prints. Fails only if no case could be measured.
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
            report.print();
            println!("{}", load_average());
            if report.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<FleetReport, String> {
    let scratch = ScratchDir::new().map_err(|error| {
        format!("cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)")
    })?;
    let (redis, cluster) = (RedisServer::start(&scratch)?, RedisServer::start_cluster(&scratch)?);
    let redis_of = |case: &Case| match case.decided_by {
        DecidedBy::TidegateOnCluster(_) => &cluster,
        _ => &redis,
    };
    let mut report = FleetReport::default();
    let mut runners: Vec<(&'static Case, Runner)> = Vec::new();
    for case in Case::all() {
        match Runner::start(case, redis_of(case), options, &scratch) {
            Ok(runner) => runners.push((case, runner)),
            Err(why) => report.failed(case, why),
        }
    }
    let bar = turns_bar(options.rounds * runners.len());
    for round in 0..options.rounds {
        for step in 0..runners.len() {
            let at = (round + step) % runners.len();
            let (case, runner) = &mut runners[at];
            bar.set_message(case.name);
            let redis = redis_of(case);
            match redis.flush().and_then(|()| runner.turn(redis, options.requests, &scratch)) {
                Ok(turn) => report.add(case, turn),
                Err(why) => report.failed(case, why),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(report)
}
