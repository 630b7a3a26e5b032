//! Which version of the rules was in force when.

use super::WAIT_NS;
use crate::simulate::record::{Happening, Record};
use crate::simulate::scenario::Scenario;

/// For each version, when it was in force on some node.
pub(super) struct Timeline {
    /// True time, from and until.
    spans: Vec<(u64, u64)>,
}

impl Timeline {
    pub(super) fn new(scenario: &Scenario, record: &Record) -> Self {
        let versions = scenario.main_rule().versions.len();
        let mut spans = vec![(u64::MAX, 0); versions];
        let mut current: Vec<Option<usize>> = vec![None; scenario.nodes];
        for (at_ns, happening) in &record.happenings {
            if let Happening::Loaded { node, version } = *happening {
                if let Some(old) = current[node].replace(version) {
                    // Requests that wait were received under the old version.
                    spans[old].1 = spans[old].1.max(at_ns + WAIT_NS);
                }
                spans[version].0 = spans[version].0.min(*at_ns);
            }
        }
        for version in current.into_iter().flatten() {
            spans[version].1 = u64::MAX;
        }
        Self { spans }
    }

    pub(super) fn is_in_force(&self, version: usize, from_ns: u64, to_ns: u64) -> bool {
        let (since_ns, until_ns) = self.spans[version];
        since_ns <= to_ns && from_ns <= until_ns
    }

    /// When the change of version began and when it was over, if there was one.
    pub(super) fn change_ns(&self) -> Option<(u64, u64)> {
        let [(_, old_until_ns), (new_since_ns, _)] = self.spans[..] else { return None };
        (new_since_ns < u64::MAX).then_some((new_since_ns, old_until_ns))
    }
}
