//! How the load on the shared store grows with nodes and keys.
//!
//! Nodes get [`REQUESTS`] requests in [`SPAN_NS`], whatever their number: a larger fleet has more nodes with less
//! traffic each. Keys are drawn by Zipf's law, so that some are hot and most are cold. No limit is reached, and nothing
//! fails. The code is the same as for seeds, and the server is the real memory store.

use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Zipf};
use tidegate::AlgorithmName;
use tidegate::store::Mode;

use super::ModeName;
use super::clocks::{MS, NodeClock, SECOND, ServerClock};
use super::mutants::Mutants;
use super::random::Random;
use super::rules::{Limits, SimRule};
use super::scale_chart;
use super::scenario::{NetworkSettings, Scenario};
use super::traffic::{Arrival, Stage};
use super::world::World;
use crate::table::Table;

const NODES: [usize; 4] = [1, 10, 100, 1_000];
const KEYS: [u32; 3] = [1, 1_000, 1_000_000];
const REQUESTS: u64 = 200_000;
const SPAN_NS: u64 = 4 * SECOND;
/// One million in ten seconds: no key reaches it.
const LIMIT: Limits = Limits { limit: 1_000_000, burst: 1_000_000 };
const WINDOW_NS: u64 = 10 * SECOND;

/// What one combination cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalePoint {
    pub(super) mode: ModeName,
    pub(super) nodes: usize,
    pub(super) keys: u32,
    pub(super) calls: u64,
    pub(super) requests: u64,
}

impl ScalePoint {
    pub(super) fn calls_per_decision(&self) -> f64 {
        self.calls as f64 / self.requests.max(1) as f64
    }
}

/// Simulates all combinations, prints a table, and writes a picture.
pub fn run(directory: &Path) -> ExitCode {
    let combinations: Vec<(u32, usize, ModeName)> = KEYS
        .into_iter()
        .flat_map(|keys| NODES.into_iter().map(move |nodes| (keys, nodes)))
        .flat_map(|(keys, nodes)| ModeName::ALL.into_iter().map(move |mode| (keys, nodes, mode)))
        .collect();
    let bar = ProgressBar::new(combinations.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} fleets, {eta} left") {
        bar.set_style(style);
    }
    let mut points = Vec::new();
    for (keys, nodes, mode) in combinations {
        points.push(simulate(mode, nodes, keys));
        bar.inc(1);
    }
    bar.finish_and_clear();
    print!("{}", table(&points));
    let file = directory.join(scale_chart::FILE_NAME);
    match std::fs::write(&file, scale_chart::draw(&points)) {
        Ok(()) => {
            println!("{}", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "cannot write {}: {error} (hint: choose a writable directory with --out)",
                file.display()
            );
            ExitCode::FAILURE
        }
    }
}

/// Runs a fleet in one mode.
fn simulate(mode: ModeName, nodes: usize, keys: u32) -> ScalePoint {
    let scenario = scenario(mode, nodes, keys);
    let mut world = World::new(&scenario, Mutants::new(None));
    world.run();
    let counts = world.record.counts;
    ScalePoint { mode, nodes, keys, calls: counts.store_calls, requests: counts.requests }
}

fn scenario(mode: ModeName, nodes: usize, keys: u32) -> Scenario {
    let mut random = Random::new(1);
    let rule = |mode| SimRule::new("scale", AlgorithmName::Gcra, WINDOW_NS, LIMIT, mode);
    let strict = rule(Mode::Strict);
    let rule = match mode {
        ModeName::Strict => strict,
        ModeName::Leased => rule(Mode::leased(strict.versions[0].counter.limit())),
        ModeName::Eventual => rule(Mode::eventual()),
    };
    let mut keys_random = SmallRng::seed_from_u64(1);
    let zipf = Zipf::new(f64::from(keys), 1.0).expect("the parameters are in range");
    let arrival = |number: u64| Arrival {
        at_ns: number * (SPAN_NS / REQUESTS) + random.below(1_000),
        node: random.index(nodes),
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to the number of keys"
        )]
        entity: zipf.sample(&mut keys_random) as u32 - 1,
        cost: 1,
        stage: Stage::Traffic,
    };
    let arrivals = (0..REQUESTS).map(arrival).collect();
    let network = NetworkSettings { latency_ns: 200_000, late_one_in: 0, duplicate_one_in: 0 };
    Scenario {
        nodes,
        entities: keys,
        node_clocks: (0..nodes).map(|_| NodeClock::new(MS, 0)).collect(),
        servers: vec![ServerClock::new(0)],
        rules: vec![rule],
        arrivals,
        faults: Vec::new(),
        reloads_ns: Vec::new(),
        network,
        calm_ns: 0,
        end_ns: SPAN_NS + 500 * MS,
        is_recorded: false,
        random: Random::new(2),
    }
}

fn table(points: &[ScalePoint]) -> Table {
    let span_s = SPAN_NS / SECOND;
    let mut table = Table::new(
        format!(
            "Calls to the shared store per decision: {REQUESTS} requests in {span_s} s, keys by Zipf's law"
        ),
        ["keys, nodes", "strict", "leased", "eventual", "strict/leased", "strict/eventual"],
    );
    for keys in KEYS {
        for nodes in NODES {
            let of = |mode: ModeName| {
                let is_same =
                    |point: &&ScalePoint| (point.mode, point.nodes, point.keys) == (mode, nodes, keys);
                points.iter().find(is_same).map_or(f64::NAN, ScalePoint::calls_per_decision)
            };
            let [strict, leased, eventual] = ModeName::ALL.map(of);
            let cells = [strict, leased, eventual].map(|calls| format!("{calls:.4}"));
            let ratios = [leased, eventual].map(|calls| format!("{:.1}x", strict / calls));
            let name = format!("{keys} keys, {nodes} nodes");
            table.row([name].into_iter().chain(cells).chain(ratios));
        }
    }
    table
}
