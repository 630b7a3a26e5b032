//! Limiters that share their counters: what is given back to one of them, somebody may wait for at another.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use tidegate_core::Timestamp;

use super::Queues;
use crate::sync::{Mutex, MutexGuard, lock};

/// The lines of all limiters of one rule over one store: those that were built apart, and those that one was changed
/// from and to.
#[derive(Clone, Default)]
pub(crate) struct Kin {
    all: Arc<Mutex<Vec<Weak<Queues>>>>,
}

/// The kin of a store's limiters, by rule.
#[derive(Default)]
pub(crate) struct Kins {
    rules: Mutex<Rules>,
}

#[derive(Default)]
struct Rules {
    kin: HashMap<Box<str>, Kin>,
    /// With so many rules, those of which no limiter is left are forgotten.
    sweep_at: usize,
}

const SWEEP_AT_LEAST: usize = 16;

impl Kins {
    /// Adds a limiter of `rule`.
    pub(crate) fn join(&self, rule: &str, queues: &Arc<Queues>) -> Kin {
        let mut rules = lock(&self.rules);
        if rules.kin.len() >= rules.sweep_at {
            rules.kin.retain(|_, kin| kin.is_alive());
            rules.sweep_at = SWEEP_AT_LEAST.max(2 * rules.kin.len());
        }
        let kin = rules.kin.entry(rule.into()).or_default().clone();
        let mut all = kin.living();
        all.push(Arc::downgrade(queues));
        drop(all);
        kin
    }
}

impl Kin {
    /// Tells whoever is in front of a line for `key` that units may have come back.
    pub(crate) fn nudge(&self, key: &[u8], now: Timestamp) {
        // Copied, for whoever is woken may run at once and be one of the kin.
        let all: SmallVec<[Arc<Queues>; 2]> = lock(&self.all).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|queues| queues.nudge(key, now));
    }

    fn is_alive(&self) -> bool {
        !self.living().is_empty()
    }

    /// Those that are left.
    fn living(&self) -> MutexGuard<'_, Vec<Weak<Queues>>> {
        let mut all = lock(&self.all);
        all.retain(|queues| queues.strong_count() > 0);
        all
    }
}
