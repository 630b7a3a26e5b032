//! Counters of rare events with two labels, whose values are all constants of the code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of label pairs. The code has fewer.
const LABEL_PAIRS_MAX: usize = 64;

/// Counters by label pair.
#[derive(Debug)]
pub struct LabeledCounters {
    slots: Box<[OnceLock<LabeledCounter>]>,
    /// Events that found no free slot.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct LabeledCounter {
    labels: [&'static str; 2],
    count: AtomicU64,
}

impl LabeledCounters {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self { slots: (0..LABEL_PAIRS_MAX).map(|_| OnceLock::new()).collect(), dropped: AtomicU64::new(0) }
    }

    /// Counts an event.
    pub fn increment(&self, labels: [&'static str; 2]) {
        for slot in &self.slots {
            let counter = slot.get_or_init(|| LabeledCounter { labels, count: AtomicU64::new(0) });
            if counter.labels == labels {
                counter.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// All label pairs with their counts, sorted.
    pub fn all(&self) -> Vec<([&'static str; 2], u64)> {
        let counters = self.slots.iter().filter_map(OnceLock::get);
        let mut all: Vec<_> =
            counters.map(|counter| (counter.labels, counter.count.load(Ordering::Relaxed))).collect();
        all.sort_unstable();
        let dropped = self.dropped.load(Ordering::Relaxed);
        all.extend((dropped > 0).then_some((["other", "other"], dropped)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_pairs_are_counted_separately() {
        let counters = LabeledCounters::new();
        for labels in [["http", "too_large"], ["grpc", "too_large"], ["http", "too_large"]] {
            counters.increment(labels);
        }
        assert_eq!(counters.all(), [(["grpc", "too_large"], 1), (["http", "too_large"], 2)]);
    }
}
