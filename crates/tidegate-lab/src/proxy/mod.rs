//! The cost of a limiter in the path of HTTP requests: in an axum program, and in nginx.
//!
//! ```text
//! contender    what is compared, and how to start it       axum_server   the axum programs
//! nginx        the configurations of nginx                  report        tables and goals
//! ```
//!
//! Contenders take turns for several rounds, each under the same load of wrk over connections that stay open. The figure
//! is the CPU time of all processes of a contender per request. The programs of axum have one thread each, and nginx one
//! process, so that no figure depends on the number of cores.

#[cfg(feature = "proxy")]
mod axum_server;
mod contender;
mod nginx;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::goals::print as print_goals;
use crate::measure::WallTime;
use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;
use crate::server::load::wrk_get;
use crate::server::turns_bar;

#[cfg(feature = "proxy")]
pub use axum_server::run as run_axum;
use contender::Running;
pub use contender::{AxumKind, Contender};
use report::{ContenderTurns, Turn};

/// What to measure, and for how long.
pub struct Options {
    /// Turns of each contender.
    pub rounds: usize,
    /// The length of a turn.
    pub seconds: u32,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
}

/// Open connections of the load generator.
const CONNECTIONS: u32 = 32;

/// Measures and prints. Fails if no contender could be measured.
pub fn run(options: &Options) -> ExitCode {
    let wall = WallTime::start();
    print_machine();
    println!("{} rounds of {} s; {}", options.rounds, options.seconds, load_average());
    let scratch = match ScratchDir::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            eprintln!(
                "cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)"
            );
            return ExitCode::FAILURE;
        }
    };
    let mut running: Vec<(Running, ContenderTurns)> = Vec::new();
    let mut missing = Vec::new();
    for contender in Contender::ALL {
        match contender.start(options, &scratch).and_then(|running| running.check().map(|()| running)) {
            Ok(started) => running.push((started, ContenderTurns::new(contender))),
            Err(why) => missing.push(format!("{}: {why}", contender.name())),
        }
    }
    let bar = turns_bar((options.rounds + 1) * running.len());
    for round in 0..=options.rounds {
        for (running, turns) in &mut running {
            bar.set_message(turns.contender.name());
            // The first round warms up.
            match take_turn(running, options.seconds) {
                Ok(turn) if round > 0 => turns.turns.push(turn),
                Ok(_) => {}
                Err(why) => turns.failed = Some(why),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let turns: Vec<ContenderTurns> = running.into_iter().map(|(_, turns)| turns).collect();
    print!("{}", report::table(&turns, &missing));
    print_goals(&report::goals(&turns));
    println!("{}; took {:.0} s", load_average(), wall.elapsed_ns() as f64 / 1e9);
    if turns.iter().any(|turns| turns.cost_s().is_some()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn take_turn(running: &Running, seconds: u32) -> Result<Turn, String> {
    let before = running.cpu()?;
    let load = wrk_get(running.port, "/", CONNECTIONS, seconds)?;
    let cpu = (running.cpu()? - before).per_million(load.requests);
    Ok(Turn { cpu, per_second: load.per_second })
}

/// Fails: these servers need the feature `proxy`.
#[cfg(not(feature = "proxy"))]
pub fn run_axum(_kind: AxumKind, _address: std::net::SocketAddr) -> ExitCode {
    eprintln!("this program was built without the axum servers (hint: build it with --features proxy)");
    ExitCode::FAILURE
}
