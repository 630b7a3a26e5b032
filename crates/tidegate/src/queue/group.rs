//! Queue groups: limiters that share their counters. A request may wait at one limiter for units that come back through
//! another.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use tidegate_core::Timestamp;

use super::WaitQueues;
use crate::sync::{Mutex, MutexGuard, lock};

/// The wait queues of all limiters of one rule over one store, whether they were built separately or one replaced
/// another.
#[derive(Clone, Default)]
pub(crate) struct QueueGroup {
    members: Arc<Mutex<Vec<Weak<WaitQueues>>>>,
}

/// The queue groups of a store, by rule.
#[derive(Default)]
pub(crate) struct QueueGroups {
    by_rule: Mutex<GroupsByRule>,
}

#[derive(Default)]
struct GroupsByRule {
    groups: HashMap<Box<str>, QueueGroup>,
    /// At this many rules, groups without a limiter are removed.
    sweep_at: usize,
}

const SWEEP_AT_LEAST: usize = 16;

impl QueueGroups {
    /// Adds a limiter of `rule`.
    pub(crate) fn join(&self, rule: &str, queues: &Arc<WaitQueues>) -> QueueGroup {
        let mut rules = lock(&self.by_rule);
        if rules.groups.len() >= rules.sweep_at {
            rules.groups.retain(|_, group| group.is_alive());
            rules.sweep_at = SWEEP_AT_LEAST.max(2 * rules.groups.len());
        }
        let group = rules.groups.entry(rule.into()).or_default().clone();
        let mut all = group.lock_live();
        all.push(Arc::downgrade(queues));
        drop(all);
        group
    }
}

impl QueueGroup {
    /// Wakes the heads of the queues of `key`: units may have come back.
    pub(crate) fn wake(&self, key: &[u8], now: Timestamp) {
        // Collect first: a woken request may run immediately and join the group.
        let all: SmallVec<[Arc<WaitQueues>; 2]> =
            lock(&self.members).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|queues| queues.wake(key, now));
    }

    fn is_alive(&self) -> bool {
        !self.lock_live().is_empty()
    }

    /// The queues that are still in use.
    fn lock_live(&self) -> MutexGuard<'_, Vec<Weak<WaitQueues>>> {
        let mut all = lock(&self.members);
        all.retain(|queues| queues.strong_count() > 0);
        all
    }
}
