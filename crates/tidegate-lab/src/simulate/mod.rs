//! A deterministic simulation of a fleet. Many nodes run the real layers of the modes `strict`, `leased` and `eventual` on
//! simulated clocks, network and servers; a checker then compares what they admitted with the stated bounds.
//!
//! ```text
//! seed -> Scenario -> World -> Record -> check -> Violation
//!         rules       nodes: Fallback<ModeStore<Link>>, the real code
//!         traffic     network, servers: the real MemoryStore on a clock of its own
//!         faults
//! ```
//!
//! A seed determines everything. There are no threads within a run, no real clock and no I/O, so a failing seed fails
//! again (`tidegate-lab simulate --seed S` prints what happens). `docs/simulation.md` is the guide, `check/mod.rs` says
//! exactly what is checked, and [`Mutation`] lists bugs that the checker must find.

mod check;
mod clocks;
mod event;
mod executor;
mod faults;
mod link;
mod mutants;
mod mutation;
mod network;
mod node;
mod owned_ask;
mod random;
mod record;
mod request;
mod rules;
mod scale;
mod scale_chart;
mod scenario;
mod seeds;
mod server;
mod traffic;
mod world;

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

pub use mutation::Mutation;
pub use record::RunCounts;
pub use rules::ModeName;
pub use scale::run as run_scale;
pub use seeds::{Options, run};

use mutants::Mutants;
use scenario::Scenario;
use world::World;

/// What a run of a seed is made of, besides the seed.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// The modes that a scenario may have.
    pub modes: &'a [ModeName],
    /// A bug to inject.
    pub mutation: Option<Mutation>,
    /// Whether to print all that happens.
    pub is_traced: bool,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was simulated.
    pub scenario: String,
    /// What was wrong.
    pub reason: String,
}

/// Runs a seed and checks what happened.
pub fn run_seed(seed: u64, variant: Variant<'_>) -> Result<RunCounts, Failure> {
    let scenario = Scenario::new(seed, variant.modes);
    if variant.is_traced {
        println!("{}", scenario.describe());
        scenario.faults.iter().for_each(|fault| println!("{fault:?}"));
    }
    let run = || {
        let mut world = World::new(&scenario, Mutants::new(variant.mutation));
        world.is_traced = variant.is_traced;
        world.run();
        let record = &world.record;
        check::check(&scenario, record).map(|()| record.counts).map_err(|violation| violation.to_string())
    };
    // Nothing of a run is used after a panic.
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    let result = result.unwrap_or_else(|payload| Err(format!("panicked: {}", panic_text(&*payload))));
    result.map_err(|reason| Failure { seed, scenario: scenario.describe(), reason })
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref().copied()).unwrap_or("without a text")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} failed: {}\n  {}", self.seed, self.reason, self.scenario)
    }
}
