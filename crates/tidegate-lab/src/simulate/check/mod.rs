//! The checker. It knows the limits, the admissions and the faults of a run, and nothing of the code under test.
//!
//! For each key, with T the life of a lease or the time between synchronisations, and D the longest wait for the shared
//! store. Windows and spans are by the clock of the key's server.
//!
//! | mode, algorithm | what is checked | file |
//! |---|---|---|
//! | strict, all | the algorithm's bound, at the server's instant of each decision | those below, with T = 0 |
//! | leased, fixed_window | at most L in each window, at the instant at which a node decided | `fixed_window.rs` |
//! | leased, gcra and token_bucket | at most B + L (tau + T) / W in each span tau | `bucket.rs` |
//! | leased, sliding_window | the algorithm's bound for units dated up to T early | `sliding_window.rs` |
//! | eventual, all | for each decision of a node from memory: the algorithm's bound, plus the units of other nodes that the node cannot know; overshoot stays counted in buckets, and in fixed windows with `carry` | `eventual.rs` |
//! | eventual, fixed_window | no denial from memory while less than L was admitted in the window and carried over, if no clock was set; counts that timed out may count twice | `denials.rs` |
//! | eventual, all | without faults: the stated bound, that of the algorithm + (N - 1) λ (2T + d), with a tick for each T | `stated.rs` |
//! | eventual, all | without faults: units are counted in the shared store at most T after they were admitted, plus ticks and messages | `syncs.rs` |
//! | degraded answers | the algorithm's bound with the node's share of the limit, by the node's clock | those above |
//! | all, after the fleet has healed | what the limit gives is admitted, also if another node had leased it until T before; no node admits more | `probes.rs` |
//!
//! Allowances, each as small as the record of the run allows:
//!
//! - A request that waited was decided at some instant between its arrival and its answer. It counts where it does
//!   least harm.
//! - Node clocks that drift make a lease live longer by [`DRIFT_PPM_MAX`] of T.
//! - After a server lost writes, counts start afresh. After that, and after its clock was set forward, the units that
//!   were leased out at that moment may come on top.
//! - After a server's clock was set back, windows are counted afresh.
//! - While nodes have different versions of the rules, and until D after, the larger limit counts.
//! - In mode eventual, what a crashed node had not sent is lost, and what a node admits within T + 2 D after its
//!   clock or its server's was set may come on top: until it has synchronised, it cannot know the windows.

mod bucket;
mod dated;
mod denials;
mod eventual;
mod fixed_window;
mod probes;
mod sliding_window;
mod stated;
mod syncs;
mod timeline;

use std::fmt;

use super::clocks::DRIFT_PPM_MAX;
use super::link::TIMEOUT_NS;
use super::owned_ask::SimKey;
use super::record::Record;
use super::rules::{Limits, ModeName, SimRule};
use super::scenario::Scenario;
use dated::{Dated, KeyRecord};
use timeline::Timeline;

/// A bound or a promise that a run broke.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) key: SimKey,
    /// True time.
    pub(super) at_ns: u64,
    pub(super) reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, at_ns, reason } = self;
        let at_ms = *at_ns as f64 / 1e6;
        write!(f, "rule {}, entity {}, at {at_ms:.3} ms: {reason}", key.rule, key.entity)
    }
}

/// What a list of units is checked against.
struct Bound<'a> {
    rule: &'a SimRule,
    timeline: &'a Timeline,
    /// Divides the limit among this many nodes.
    shares: usize,
    /// What the reason says.
    what: &'a str,
}

impl Bound<'_> {
    /// The largest limit in force in a span of true time.
    fn limits(&self, from_ns: u64, to_ns: u64) -> Limits {
        let in_force = self.rule.versions.iter().enumerate().filter(|(version, _)| {
            self.rule.versions.len() == 1 || self.timeline.is_in_force(*version, from_ns, to_ns)
        });
        in_force.fold(Limits { limit: 0, burst: 0 }, |most, (_, version)| {
            let Limits { limit, burst } = version.share(self.shares);
            Limits { limit: most.limit.max(limit), burst: most.burst.max(burst) }
        })
    }
}

/// Checks a run.
pub(super) fn check(scenario: &Scenario, record: &Record) -> Result<(), Violation> {
    let timeline = Timeline::new(scenario, record);
    for (rule_number, rule) in (0..).zip(&scenario.rules) {
        for entity in 0..scenario.entities {
            let key = SimKey { rule: rule_number, entity };
            check_key(scenario, record, &timeline, key, rule)?;
        }
    }
    probes::check(scenario, record)
}

fn check_key(
    scenario: &Scenario,
    record: &Record,
    timeline: &Timeline,
    key: SimKey,
    rule: &SimRule,
) -> Result<(), Violation> {
    let key_record = KeyRecord::new(scenario, record, key, rule);
    let bound = Bound { rule, timeline, shares: 1, what: "admitted" };
    match rule.mode() {
        ModeName::Eventual => {
            eventual::check(scenario, record, key, &bound)?;
            denials::check(scenario, record, key, &bound)?;
            syncs::check(scenario, record, key, &bound)?;
            stated::check(scenario, record, key, &bound)?;
        }
        ModeName::Strict | ModeName::Leased => check_units(&bound, &key_record, &key_record.units)
            .map_err(|(at_ns, reason)| Violation { key, at_ns, reason })?,
    }
    let share = Bound { shares: scenario.nodes, what: "admitted while the store failed", ..bound };
    for (node, units) in key_record.degraded.iter().enumerate() {
        check_units(&share, &key_record.without_extras(), units).map_err(|(at_ns, reason)| Violation {
            key,
            at_ns,
            reason: format!("node {node} {reason}"),
        })?;
    }
    Ok(())
}

/// When a bound was broken, and how.
type Broken = (u64, String);

fn check_units(bound: &Bound<'_>, record: &KeyRecord, units: &[Dated]) -> Result<(), Broken> {
    use tidegate::AlgorithmName::{Gcra, SlidingWindow, TokenBucket};
    match bound.rule.algorithm {
        Gcra | TokenBucket => bucket::check(bound, record, units),
        SlidingWindow => sliding_window::check(bound, record, units),
        _ => fixed_window::check(bound, record, units),
    }
}

/// T by the slowest clock.
fn longest_life_ns(rule: &SimRule) -> u64 {
    let life_ns = rule.life_ns_max();
    life_ns + drift_ns(life_ns)
}

/// How much longer a span takes by the slowest clock.
fn drift_ns(span_ns: u64) -> u64 {
    match span_ns {
        0 => 0,
        _ => span_ns * DRIFT_PPM_MAX.unsigned_abs() * 11 / 10 / 1_000_000 + 1_000,
    }
}

/// D.
const WAIT_NS: u64 = TIMEOUT_NS + 1;
