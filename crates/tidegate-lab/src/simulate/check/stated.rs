//! The bound of mode eventual as `docs/modes.md` states it.
//!
//! In a healthy fleet, what counts is at most what the algorithm allows + (N - 1) λ (2T + d): a node does not know what the
//! other nodes admitted in the last 2T + d. λ (2T + d) is the most that one node admitted in a span of that length. Pushes wait for ticks, so a tick is added to each T.
//!
//! Units that were admitted within a message of the end of a window are not counted: a node may take one window for the
//! other.

use std::collections::VecDeque;

use super::eventual::{Instant, Usage};
use super::syncs::{is_healthy, message_ns_max};
use super::{Bound, Violation, longest_life_ns};
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Happening, Record};
use crate::simulate::scenario::Scenario;
use crate::simulate::world::TICK_NS;

pub(super) fn check(
    scenario: &Scenario,
    record: &Record,
    key: SimKey,
    bound: &Bound<'_>,
) -> Result<(), Violation> {
    if !is_healthy(scenario) || bound.rule.versions.len() > 1 {
        return Ok(());
    }
    let clock = &scenario.servers[scenario.server_of(key.entity)];
    let (window_ns, edge_ns) = (bound.rule.window_ns, message_ns_max(scenario));
    // The push of another node and the next one of this node, each up to a tick late, and a round trip.
    let unknown_ns = 2 * (longest_life_ns(bound.rule) + TICK_NS) + 2 * message_ns_max(scenario);
    let excess = (scenario.nodes as u64 - 1) * most_of_one_node(scenario, record, key, unknown_ns);
    let mut usage = Usage::default();
    for (number, (at_ns, happening)) in record.happenings.iter().enumerate() {
        let Happening::Admitted(admission) = *happening else { continue };
        let server_ns = clock.at(*at_ns);
        let is_near_edge = !(edge_ns..=window_ns - edge_ns).contains(&(server_ns % window_ns));
        if admission.key != key || admission.units == 0 || !bound.rule.is_bucket() && is_near_edge {
            continue;
        }
        let limits = bound.limits(*at_ns, *at_ns);
        let instant = Instant { number, true_ns: *at_ns, server_ns, forward_ns: clock.forward_at(*at_ns) };
        let counted = usage.add(bound, limits, admission.units, instant, server_ns / window_ns);
        // Units are dated early by a message at most, and a bucket refills meanwhile.
        let refilled = if bound.rule.is_bucket() { limits.limit * edge_ns } else { 0 };
        let allowed = u128::from(limits.burst + excess) * u128::from(window_ns) + u128::from(refilled);
        if counted > allowed {
            let over = (counted - allowed).div_ceil(u128::from(window_ns));
            let reason = format!("admitted {over} more than the stated bound, with an excess of {excess}");
            return Err(Violation { key, at_ns: *at_ns, reason });
        }
    }
    Ok(())
}

/// The most units that one node admitted in any span of this length.
fn most_of_one_node(scenario: &Scenario, record: &Record, key: SimKey, span_ns: u64) -> u64 {
    let mut recent: Vec<(VecDeque<(u64, u64)>, u64)> = vec![(VecDeque::new(), 0); scenario.nodes];
    let mut most = 0;
    for (at_ns, happening) in &record.happenings {
        let Happening::Admitted(admission) = happening else { continue };
        if admission.key != key {
            continue;
        }
        let (units, sum) = &mut recent[admission.node];
        units.push_back((*at_ns, admission.units));
        *sum += admission.units;
        while let Some((first_ns, first)) = units.front().copied()
            && first_ns + span_ns < *at_ns
        {
            units.pop_front();
            *sum -= first;
        }
        most = most.max(*sum);
    }
    most
}
