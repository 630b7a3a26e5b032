//! Rare things, counted by two words each that are known when the server is built.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most kinds: there are fewer places in the code that count any.
const KINDS_MAX: usize = 64;

/// How often what happened.
#[derive(Debug)]
pub struct Kinds {
    slots: Box<[OnceLock<Kind>]>,
    /// What found no slot.
    lost: AtomicU64,
}

#[derive(Debug)]
struct Kind {
    words: [&'static str; 2],
    count: AtomicU64,
}

impl Kinds {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self { slots: (0..KINDS_MAX).map(|_| OnceLock::new()).collect(), lost: AtomicU64::new(0) }
    }

    /// It has happened once more.
    pub fn count(&self, words: [&'static str; 2]) {
        for slot in &self.slots {
            let kind = slot.get_or_init(|| Kind { words, count: AtomicU64::new(0) });
            if kind.words == words {
                kind.count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// What has happened, and how often, in the order of the words.
    pub fn all(&self) -> Vec<([&'static str; 2], u64)> {
        let counted = self.slots.iter().filter_map(OnceLock::get);
        let mut all: Vec<_> = counted.map(|kind| (kind.words, kind.count.load(Ordering::Relaxed))).collect();
        all.sort_unstable();
        let lost = self.lost.load(Ordering::Relaxed);
        all.extend((lost > 0).then_some((["other", "other"], lost)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_by_itself() {
        let kinds = Kinds::new();
        for words in [["http", "too_large"], ["grpc", "too_large"], ["http", "too_large"]] {
            kinds.count(words);
        }
        assert_eq!(kinds.all(), [(["grpc", "too_large"], 1), (["http", "too_large"], 2)]);
    }
}
