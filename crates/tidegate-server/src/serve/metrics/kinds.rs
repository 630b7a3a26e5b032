//! Rare things, counted by two words each that are known when the server is built.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most kinds: there are fewer places in the code that count any.
const LABEL_PAIRS_MAX: usize = 64;

/// How often what happened.
#[derive(Debug)]
pub struct LabeledCounters {
    slots: Box<[OnceLock<LabeledCounter>]>,
    /// What found no slot.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct LabeledCounter {
    labels: [&'static str; 2],
    count: AtomicU64,
}

impl LabeledCounters {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self { slots: (0..LABEL_PAIRS_MAX).map(|_| OnceLock::new()).collect(), dropped: AtomicU64::new(0) }
    }

    /// It has happened once more.
    pub fn increment(&self, words: [&'static str; 2]) {
        for slot in &self.slots {
            let kind = slot.get_or_init(|| LabeledCounter { labels: words, count: AtomicU64::new(0) });
            if kind.labels == words {
                kind.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// What has happened, and how often, in the order of the words.
    pub fn all(&self) -> Vec<([&'static str; 2], u64)> {
        let counted = self.slots.iter().filter_map(OnceLock::get);
        let mut all: Vec<_> = counted.map(|kind| (kind.labels, kind.count.load(Ordering::Relaxed))).collect();
        all.sort_unstable();
        let lost = self.dropped.load(Ordering::Relaxed);
        all.extend((lost > 0).then_some((["other", "other"], lost)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_pairs_are_counted_separately() {
        let kinds = LabeledCounters::new();
        for words in [["http", "too_large"], ["grpc", "too_large"], ["http", "too_large"]] {
            kinds.increment(words);
        }
        assert_eq!(kinds.all(), [(["grpc", "too_large"], 1), (["http", "too_large"], 2)]);
    }
}
