//! A limiter and those it was changed to: they share their counters, so what one gives back another may wait for.

use std::sync::{Arc, Weak};

use tidegate_core::Timestamp;

use super::Queues;
use crate::sync::{Mutex, lock};

/// The lines of a limiter and of all that it was changed from and to, as long as those are in use.
#[derive(Clone)]
pub(crate) struct Kin {
    all: Arc<Mutex<Vec<Weak<Queues>>>>,
}

impl Kin {
    pub(crate) fn of(queues: &Arc<Queues>) -> Self {
        Self { all: Arc::new(Mutex::new(vec![Arc::downgrade(queues)])) }
    }

    /// The same kin, with one more.
    pub(crate) fn joined_by(&self, queues: &Arc<Queues>) -> Self {
        let mut all = lock(&self.all);
        all.retain(|kin| kin.strong_count() > 0);
        all.push(Arc::downgrade(queues));
        self.clone()
    }

    /// Tells whoever is in front of a line for `key` that units may have come back.
    pub(crate) fn nudge(&self, key: &[u8], now: Timestamp) {
        // Copied, for whoever is woken may run at once and be one of the kin.
        let all: Vec<Arc<Queues>> = lock(&self.all).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|queues| queues.nudge(key, now));
    }
}
