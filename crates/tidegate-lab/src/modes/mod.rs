//! The modes of a fleet with real processes: servers, one Redis, and clients over the Redis protocol.
//!
//! ```text
//! process.rs    Redis, the nodes, and their CPU time and commands
//! client.rs     sends decisions to a node and counts the admitted ones
//! overload.rs   four nodes above the limit of one key: admitted units divided by the limit, beside the bound
//! cost.rs       one node under load: CPU time and Redis commands per decision
//! ```

mod client;
mod cost;
mod overload;
mod process;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;

/// What to measure.
pub struct ModesMeasurement {
    /// Whole windows in each case above the limit.
    pub windows: u32,
    /// Decisions for each figure of costs.
    pub decisions: u64,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
}

/// How a rule is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountedIn {
    /// In the memory of one node, without Redis.
    Memory,
    Strict,
    Leased,
    Eventual,
}

impl CountedIn {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Strict => "strict",
            Self::Leased => "leased",
            Self::Eventual => "eventual",
        }
    }

    /// The value of `mode` in the rules.
    const fn mode(self) -> &'static str {
        match self {
            Self::Memory => "local",
            other => other.name(),
        }
    }
}

/// Measures and prints.
pub fn run(measurement: &ModesMeasurement) -> ExitCode {
    print_machine();
    println!("{}", load_average());
    let measured = ScratchDir::new()
        .map_err(|error| {
            format!("cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)")
        })
        .and_then(|scratch| {
            overload::run(measurement, &scratch)?;
            cost::run(measurement, &scratch)
        });
    println!("{}", load_average());
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
