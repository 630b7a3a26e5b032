//! Limiters that share their counters: what one of them gives back, another may be waited for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use tidegate_core::Timestamp;

use super::Queues;
use crate::sync::{Mutex, lock};

/// The lines of all limiters of one rule over one store: those that were built apart, and those that one was changed
/// from and to.
#[derive(Clone, Default)]
pub(crate) struct Kin {
    all: Arc<Mutex<Vec<Weak<Queues>>>>,
}

/// The kin of a store's limiters, by rule.
#[derive(Default)]
pub(crate) struct Kins {
    by_rule: Mutex<HashMap<Box<str>, Kin>>,
}

impl Kins {
    /// Adds a limiter of `rule`.
    pub(crate) fn join(&self, rule: &str, queues: &Arc<Queues>) -> Kin {
        let mut by_rule = lock(&self.by_rule);
        // Rules of which no limiter is left.
        by_rule.retain(|_, kin| kin.is_alive());
        let kin = by_rule.entry(rule.into()).or_default().clone();
        lock(&kin.all).push(Arc::downgrade(queues));
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

    /// Whether any limiter is left. Forgets those that are not.
    fn is_alive(&self) -> bool {
        let mut all = lock(&self.all);
        all.retain(|queues| queues.strong_count() > 0);
        !all.is_empty()
    }
}
