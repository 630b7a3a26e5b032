//! The admissions of a key, with the instants at which they may have been decided.

use super::{WAIT_NS, longest_life_ns};
use crate::simulate::clocks::ServerClock;
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Decided, Happening, Record};
use crate::simulate::rules::SimRule;
use crate::simulate::scenario::Scenario;

/// Units that were admitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dated {
    /// When they were asked for and when they were admitted, in true time.
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) units: u64,
    /// The first and the last instant at which they may have been decided, by the clock that counts.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// The last instant, as the sum of what that clock moved forward.
    pub(super) forward_ns: u64,
    pub(super) waited: bool,
}

/// Units that may come on top after an instant, once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub(super) from_ns: u64,
    pub(super) units: u64,
}

/// What the checker knows about a key.
pub(super) struct KeyRecord {
    pub(super) units: Vec<Dated>,
    /// For each node.
    pub(super) degraded: Vec<Vec<Dated>>,
    pub(super) extras: Vec<Extra>,
    /// When counts start afresh, in true time: writes were lost.
    pub(super) lost_ns: Vec<u64>,
    /// When windows are counted afresh: writes were lost, or the server's clock was set back.
    pub(super) breaks_ns: Vec<u64>,
}

impl KeyRecord {
    pub(super) fn new(scenario: &Scenario, record: &Record, key: SimKey, rule: &SimRule) -> Self {
        let server = scenario.server_of(key.entity);
        let clock = &scenario.servers[server];
        let mut key_record = Self {
            units: Vec::new(),
            degraded: vec![Vec::new(); scenario.nodes],
            extras: Vec::new(),
            lost_ns: Vec::new(),
            breaks_ns: Vec::new(),
        };
        let life_ns = longest_life_ns(rule).max(WAIT_NS);
        let mut debits: Vec<(u64, u64)> = Vec::new();
        let leased_out = |debits: &[(u64, u64)], at_ns: u64| {
            let recent = debits.iter().rev().take_while(|(debited_ns, _)| debited_ns + life_ns >= at_ns);
            Extra { from_ns: at_ns, units: recent.map(|(_, units)| units).sum() }
        };
        for (at_ns, happening) in &record.happenings {
            match *happening {
                Happening::Admitted(admission) if admission.key == key && admission.units > 0 => {
                    let dated = Dated {
                        from_ns: admission.from_ns,
                        to_ns: *at_ns,
                        units: admission.units,
                        first_ns: clock.at(admission.from_ns),
                        last_ns: clock.at(*at_ns),
                        forward_ns: clock.forward_at(*at_ns),
                        waited: admission.decided == Decided::Waited,
                    };
                    match admission.decided {
                        Decided::InMemory | Decided::Waited => key_record.units.push(dated),
                        Decided::Strict { server_ns } => {
                            key_record.units.push(strict(dated, clock, server_ns));
                        }
                        Decided::Degraded { node_ns } => {
                            let (first_ns, last_ns, forward_ns) = (node_ns, node_ns, node_ns);
                            key_record.degraded[admission.node].push(Dated {
                                first_ns,
                                last_ns,
                                forward_ns,
                                from_ns: *at_ns,
                                ..dated
                            });
                        }
                    }
                }
                Happening::Debited { key: debited, units } if debited == key => debits.push((*at_ns, units)),
                Happening::WritesLost { server: lost } if lost == server => {
                    key_record.extras.push(leased_out(&debits, *at_ns));
                    key_record.lost_ns.push(*at_ns);
                    key_record.breaks_ns.push(*at_ns);
                }
                Happening::ServerStepped { server: stepped, by_ns } if stepped == server => match by_ns > 0 {
                    true => key_record.extras.push(leased_out(&debits, *at_ns)),
                    false => key_record.breaks_ns.push(*at_ns),
                },
                // The fallback's counts are gone too. Its few units are not worth a check across a crash.
                Happening::Crashed { node } => key_record.degraded[node].clear(),
                _ => {}
            }
        }
        key_record
    }

    /// The same for counts of a node alone.
    pub(super) fn without_extras(&self) -> Self {
        let (units, degraded, extras, lost_ns, breaks_ns) = Default::default();
        Self { units, degraded, extras, lost_ns, breaks_ns }
    }

    /// How many breaks were before an instant.
    pub(super) fn segment(&self, at_ns: u64) -> usize {
        self.breaks_ns.iter().take_while(|break_ns| **break_ns <= at_ns).count()
    }
}

/// Takes units from those that may come on top. Returns whether there were enough.
pub(super) fn take_extra(extras: &mut [Extra], at_ns: u64, units: u64) -> bool {
    let usable = |extra: &&mut Extra| extra.from_ns <= at_ns;
    let total: u64 = extras.iter().filter(|extra| extra.from_ns <= at_ns).map(|extra| extra.units).sum();
    if total < units {
        return false;
    }
    let mut left = units;
    for extra in extras.iter_mut().filter(usable) {
        let taken = left.min(extra.units);
        (extra.units, left) = (extra.units - taken, left - taken);
    }
    true
}

/// Decided when the server's clock showed `server_ns`.
fn strict(dated: Dated, clock: &ServerClock, server_ns: u64) -> Dated {
    let back: u64 = clock
        .steps
        .iter()
        .filter(|(at_ns, _)| *at_ns <= dated.to_ns)
        .map(|(_, by_ns)| by_ns.min(&0).unsigned_abs())
        .sum();
    Dated { first_ns: server_ns, last_ns: server_ns, forward_ns: server_ns + back, ..dated }
}
