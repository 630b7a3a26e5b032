//! The cost of overrides: the CPU time of `tidegate serve` per decision, with and without overrides.
//!
//! ```text
//! node.rs     a server process, and the import of overrides into it
//! load/       sends decisions of random keys over RESP, HTTP and gRPC
//! report.rs   the table and the goals
//! ```
//!
//! Three servers with the same rule take turns for several rounds: one without overrides, one whose overrides are for other
//! keys than the load has, and one with an override for each key. All of them decide for the same random keys, over each
//! protocol in turn.

mod load;
mod node;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use load::Load;
use node::Node;
use report::OverridesReport;

use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;
use crate::server::load_kind::Protocol;
use crate::server::turns_bar;

/// What to measure.
pub struct OverridesMeasurement {
    /// How many keys the load has, and how many have overrides.
    pub keys: u64,
    /// Turns of each server.
    pub rounds: usize,
    /// Decisions in a turn over RESP. The other protocols have a fifth of them, because each takes more time.
    pub decisions: u64,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
}

/// Which keys have overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overridden {
    NoKey,
    OtherKeys,
    EachKey,
}

impl Overridden {
    const ALL: [Self; 3] = [Self::NoKey, Self::OtherKeys, Self::EachKey];

    fn name(self) -> &'static str {
        match self {
            Self::NoKey => "no overrides",
            Self::OtherKeys => "overrides of other keys",
            Self::EachKey => "an override for each key",
        }
    }
}

/// The protocols to measure.
const PROTOCOLS: [Protocol; 3] = [Protocol::Resp, Protocol::Http, Protocol::Grpc];

fn decisions_of(protocol: Protocol, decisions: u64) -> u64 {
    match protocol {
        Protocol::Resp => decisions,
        Protocol::Http | Protocol::Grpc => decisions.div_ceil(5),
    }
}

/// Measures and prints.
pub fn run(measurement: &OverridesMeasurement) -> ExitCode {
    print_machine();
    let OverridesMeasurement { keys, rounds, decisions, .. } = measurement;
    println!("{keys} keys, {rounds} rounds, {decisions} decisions in a turn; {}", load_average());
    match measure(measurement) {
        Ok(report) => {
            report.print();
            println!("{}", load_average());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn measure(measurement: &OverridesMeasurement) -> Result<OverridesReport, String> {
    let scratch = ScratchDir::new().map_err(|error| {
        format!("cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)")
    })?;
    let mut report = OverridesReport::new();
    let mut nodes = Vec::new();
    for overridden in Overridden::ALL {
        let node = Node::start(&measurement.tidegate, overridden, &scratch)?;
        if let Some(import) = node.import(&measurement.tidegate, measurement.keys, &scratch)? {
            println!("{}: {import}", overridden.name());
        }
        let connect = |protocol| Load::connect(&node, protocol, measurement.keys);
        let mut loads = PROTOCOLS.into_iter().map(connect).collect::<Result<Vec<_>, _>>()?;
        // Each key once, so that its counter exists and its overrides are in the cache.
        loads[0].send_each()?;
        nodes.push((overridden, node, loads));
    }
    let bar = turns_bar(measurement.rounds * nodes.len() * PROTOCOLS.len());
    for round in 0..measurement.rounds {
        for (position, protocol) in PROTOCOLS.into_iter().enumerate() {
            for step in 0..nodes.len() {
                let index = (round + step) % nodes.len();
                let (overridden, node, loads) = &mut nodes[index];
                let decisions = decisions_of(protocol, measurement.decisions);
                let before = node.cpu()?;
                loads[position].send(decisions)?;
                let cpu = node.cpu()? - before;
                report.add(protocol, *overridden, cpu.per_million(decisions));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    for (overridden, node, _) in &nodes {
        report.set_memory(*overridden, node.resident_bytes());
    }
    Ok(report)
}
