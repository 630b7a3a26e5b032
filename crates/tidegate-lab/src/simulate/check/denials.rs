//! Denials of mode eventual in a fixed window: none without a reason.
//!
//! A count that timed out is sent again in the same window, and may count twice. Otherwise, if no clock was set, a denial
//! means that the window had more than L, with what it carries over from windows before. Units near the edge of a window may
//! be counted in either, so they count in both here.

use std::collections::BTreeMap;

use tidegate::AlgorithmName;

use super::{Bound, Violation, WAIT_NS};
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Happening, Record};
use crate::simulate::scenario::Scenario;

pub(super) fn check(
    scenario: &Scenario,
    record: &Record,
    key: SimKey,
    bound: &Bound<'_>,
) -> Result<(), Violation> {
    if bound.rule.algorithm != AlgorithmName::FixedWindow {
        return Ok(());
    }
    let server = scenario.server_of(key.entity);
    let clock = &scenario.servers[server];
    let window_ns = bound.rule.window_ns;
    let edge_ns = WAIT_NS.min(window_ns / 5);
    let limits = bound.rule.versions.iter().map(|version| version.limit);
    let limits = (limits.clone().min().unwrap_or(0), limits.max().unwrap_or(0));
    let (limit, _) = limits;
    // What a node may know to be used in each window, at most.
    let mut admitted: BTreeMap<u64, u64> = BTreeMap::new();
    let add = |admitted: &mut BTreeMap<u64, u64>, first_ns: u64, last_ns: u64, units: u64| {
        (first_ns / window_ns..=last_ns / window_ns)
            .for_each(|window| *admitted.entry(window).or_default() += units);
    };
    for (at_ns, happening) in &record.happenings {
        let server_ns = clock.at(*at_ns);
        match *happening {
            Happening::Admitted(admission) if admission.key == key => {
                add(&mut admitted, server_ns - edge_ns, server_ns + edge_ns, admission.units);
            }
            // The server has it before its node has, and if the reply is lost its node never has it.
            Happening::Debited { key: debited, units } if debited == key => {
                add(&mut admitted, server_ns - edge_ns, server_ns + edge_ns, units);
            }
            // They are sent again, and may count twice: in the window in which they were sent.
            Happening::GaveUp { key: lost, units, sent_ns } if lost == key => {
                let sent_ns = clock.at(sent_ns);
                add(&mut admitted, sent_ns - edge_ns, sent_ns + edge_ns, units);
            }
            Happening::Denied { key: denied, node, units } if denied == key => {
                let window = server_ns / window_ns;
                let known = carried(&admitted, window, limits) + admitted.get(&window).copied().unwrap_or(0);
                let offset_ns = server_ns % window_ns;
                let is_sure = offset_ns > edge_ns && offset_ns < window_ns - edge_ns;
                if is_sure && known + units <= limit {
                    let reason = format!(
                        "node {node} denied {units}, although at most {known} of {limit} are used in the window"
                    );
                    return Err(Violation { key, at_ns: *at_ns, reason });
                }
            }
            Happening::NodeStepped { .. } | Happening::ServerStepped { .. } => return Ok(()),
            Happening::WritesLost { .. } | Happening::Crashed { .. } => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}

/// What the windows before a window carry over to it, at most, with the least and the greatest limit in force: a lower limit makes
/// an excess of what a window pays.
fn carried(admitted: &BTreeMap<u64, u64>, window: u64, (least, most): (u64, u64)) -> u64 {
    let first = admitted.keys().next().copied().unwrap_or(window);
    let units = |number: u64| admitted.get(&number).copied().unwrap_or(0);
    (first..window).fold(0, |carried, number| (units(number) + carried).saturating_sub(least).min(most))
}
