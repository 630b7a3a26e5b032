//! Liveness: what the probes after a run show.

use super::Violation;
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Probe, ProbeAnswer, Record};
use crate::simulate::rules::MAIN;
use crate::simulate::scenario::Scenario;
use crate::simulate::traffic::Stage;

pub(super) fn check(scenario: &Scenario, record: &Record) -> Result<(), Violation> {
    let violation = |entity: u32, reason: String| Violation {
        key: SimKey { rule: MAIN, entity },
        at_ns: scenario.end_ns,
        reason,
    };
    let sent = scenario.arrivals.iter().filter(|arrival| arrival.stage != Stage::Traffic).count();
    if sent != record.probes.len() {
        let answered = record.probes.len();
        return Err(violation(0, format!("only {answered} of {sent} probes were answered")));
    }
    for (number, Probe { entity, node, stage, answer }) in record.probes.iter().enumerate() {
        let problem = match (stage, answer) {
            (_, ProbeAnswer::Degraded) => "the store failed in a healthy fleet",
            (Stage::First, ProbeAnswer::Denied) => "the fleet was idle, but the limit has not come back",
            (Stage::Second | Stage::Retry, ProbeAnswer::Denied) => {
                "what another node had leased or counted did not come back within T"
            }
            (Stage::Over, ProbeAnswer::Admitted) => "the fleet did not agree on what was used",
            _ => continue,
        };
        let reason = format!("probe {number} on node {node} ({stage:?}) was {answer:?}: {problem}");
        return Err(violation(*entity, reason));
    }
    Ok(())
}
