//! How soon mode eventual shares what a node admitted.
//!
//! In a healthy fleet, the server counts a unit at most T after its node admitted it from memory, plus the time between
//! two ticks and some messages. The other checks follow from what nodes cannot know; this one limits how much that is.
//!
//! Units that come near the edge of a fixed window are not checked. What was not sent when the window ends is dropped, and a
//! node's idea of the server's clock is late by up to a message, so it may take a new window for the old one.

use tidegate::AlgorithmName;

use super::{Bound, Violation, WAIT_NS, longest_life_ns};
use crate::simulate::clocks::MS;
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Decided, Happening, Record};
use crate::simulate::scenario::Scenario;
use crate::simulate::world::TICK_NS;

/// A push that was under way, the push of the units, and room for one more message each.
const MESSAGES: u64 = 6;

/// Whether nothing fails. A late message may time out, and then its node waits for longer.
pub(super) fn is_healthy(scenario: &Scenario) -> bool {
    scenario.network.late_one_in == 0 && scenario.faults.is_empty()
}

/// The longest that a message takes in a healthy fleet.
pub(super) fn message_ns_max(scenario: &Scenario) -> u64 {
    3 * scenario.network.latency_ns
}

/// How soon the server has counted a unit in a healthy fleet.
pub(super) fn shared_within_ns(scenario: &Scenario, bound: &Bound<'_>) -> u64 {
    longest_life_ns(bound.rule) + 2 * TICK_NS + MESSAGES * message_ns_max(scenario)
}

pub(super) fn check(
    scenario: &Scenario,
    record: &Record,
    key: SimKey,
    bound: &Bound<'_>,
) -> Result<(), Violation> {
    if !is_healthy(scenario) {
        return Ok(());
    }
    let clock = &scenario.servers[scenario.server_of(key.entity)];
    let shared_within_ns = shared_within_ns(scenario, bound);
    let window_ns = bound.rule.window_ns;
    let is_dropped = |at_ns: u64| {
        let offset_ns = clock.at(at_ns) % window_ns;
        bound.rule.algorithm == AlgorithmName::FixedWindow
            && (offset_ns < message_ns_max(scenario) || offset_ns + shared_within_ns + WAIT_NS > window_ns)
    };
    // For each node, the units that the server has not counted: their positions in the record, and when they came.
    let mut unshared: Vec<Vec<(usize, u64)>> = vec![Vec::new(); scenario.nodes];
    for (number, (at_ns, happening)) in record.happenings.iter().enumerate() {
        for (node, units) in unshared.iter().enumerate() {
            if let Some((_, admitted_ns)) = units.first()
                && admitted_ns + shared_within_ns < *at_ns
            {
                let reason = format!("node {node} did not share units within {} ms", shared_within_ns / MS);
                return Err(Violation { key, at_ns: *admitted_ns, reason });
            }
        }
        match *happening {
            Happening::Admitted(admission)
                if admission.key == key
                    && admission.units > 0
                    && admission.decided == Decided::InMemory
                    && !is_dropped(*at_ns) =>
            {
                unshared[admission.node].push((number, *at_ns));
            }
            Happening::Counted { node, key: counted, sent_after, .. } if counted == key => {
                unshared[node].retain(|(number, _)| *number >= sent_after);
            }
            _ => {}
        }
    }
    Ok(())
}
