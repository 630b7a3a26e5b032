//! A filter of the keys that have an entry, so that a look-up of a key without one does not read the file.
//!
//! It is a Bloom filter: it never misses a key, and some keys without an entry pass it. At 10 bits for a key these are one in a
//! hundred. A key is added before its write is committed. A deletion leaves its bits until the filter is built again.
//!
//! The filter is sized for twice the entries that it is built for. When it has more keys than that, a larger one is built from the
//! file while the old one is in use ([`FilterBuilder`](super::filter_builder::FilterBuilder)); the writer adds new keys to both.
//! Both together stay within the budget: where they would not fit, all keys pass until the new one is built. At the full
//! budget the filter does not grow, and more keys pass. Its answers are never wrong.
//!
//! Keys are hashed with a random seed, so that clients cannot choose keys that pass.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use fastbloom::AtomicBloomFilter;
use foldhash::quality::RandomState;

/// Bits for each key at the size that a filter is made for. With [`HASHES`], 0.9 % of other keys pass.
const BITS_PER_KEY: u64 = 10;
/// Bits that a key sets. Two fewer than the best rate needs (0.8 %), because adding a key and finding it take that much longer.
const HASHES: u32 = 5;
/// The smallest filter is made for this many keys: 80 KiB.
const KEYS_MIN: u64 = 1 << 16;
/// If more keys without an entry pass than this, there is a warning.
const PASS_PERCENT_MAX: f64 = 5.0;

/// A filter of the keys that have an entry.
pub(super) struct KeyFilter {
    stages: ArcSwap<Stages>,
    seed: RandomState,
    bytes_max: usize,
}

/// Without a current filter, all keys pass.
#[derive(Default)]
struct Stages {
    current: Option<Arc<Bits>>,
    /// A filter that is being built.
    next: Option<Arc<Bits>>,
}

struct Bits {
    bloom: AtomicBloomFilter,
    /// Keys that were added, except for those that seemed to be there already.
    keys: AtomicU64,
}

impl KeyFilter {
    /// A filter that all keys pass until it is built. With a budget of zero it never is.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { stages: ArcSwap::default(), seed: RandomState::default(), bytes_max }
    }

    /// Whether the key may have an entry. If not, it has none.
    #[inline]
    pub(super) fn may_contain(&self, key: &str) -> bool {
        match &self.stages.load().current {
            Some(bits) => bits.bloom.contains_hash(self.hash(key.as_bytes())),
            None => true,
        }
    }

    /// Adds a key. The writer does this before it commits the entry.
    pub(super) fn insert(&self, key: &[u8]) {
        let (hash, stages) = (self.hash(key), self.stages.load());
        for bits in stages.current.iter().chain(&stages.next) {
            bits.insert(hash);
        }
    }

    /// Whether a filter is in use.
    pub(super) fn is_built(&self) -> bool {
        self.stages.load().current.is_some()
    }

    /// The memory of the filters, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let stages = self.stages.load();
        stages.current.iter().chain(&stages.next).map(|bits| bits.bytes()).sum()
    }

    /// Begins to build a filter if that is due for this many entries. From then on, new keys are added to it too. Only the writer
    /// calls this, so that no key is missed: those before are in the file, those after are added.
    pub(super) fn begin_build(&self, entries: u64) -> Option<NextFilter> {
        let stages = self.stages.load();
        let bytes = self.bytes_for(entries);
        if bytes == 0 || stages.next.is_some() {
            return None;
        }
        if let Some(current) = &stages.current {
            let keys = current.keys.load(Ordering::Relaxed);
            let has_room = keys <= current.keys_max();
            let would_help = bytes > current.bytes() || entries.saturating_mul(2) <= keys;
            if has_room || !would_help {
                return None;
            }
        }
        let fits = |current: &&Arc<Bits>| current.bytes() + bytes <= self.bytes_max;
        let current = stages.current.as_ref().filter(fits).cloned();
        let next = Arc::new(Bits::new(bytes));
        self.stages.store(Arc::new(Stages { current, next: Some(Arc::clone(&next)) }));
        Some(NextFilter(next))
    }

    /// Adds a key of the file to a filter that is being built.
    pub(super) fn insert_into(&self, next: &NextFilter, key: &[u8]) {
        next.0.insert(self.hash(key));
    }

    /// Puts a filter into use that has all keys of the file.
    pub(super) fn finish_build(&self, next: NextFilter) {
        self.stages.store(Arc::new(Stages { current: Some(next.0), next: None }));
    }

    /// Goes on without a filter that could not be built.
    pub(super) fn cancel_build(&self) {
        let current = self.stages.load().current.clone();
        self.stages.store(Arc::new(Stages { current, next: None }));
    }

    /// A sentence if the filter is too small for its keys.
    pub(super) fn warning(&self) -> Option<String> {
        let stages = self.stages.load();
        let bits = stages.current.as_ref()?;
        let keys = bits.keys.load(Ordering::Relaxed);
        let passing = bits.bloom.expected_false_pos(usize::try_from(keys).unwrap_or(usize::MAX));
        let percent = passing * 100.0;
        (percent > PASS_PERCENT_MAX).then(|| {
            format!(
                "the filter of config keys has {} MiB for {keys} keys, so {percent:.0} % of the look-ups of keys without an \
                 entry read the file (hint: allow the filter {} MiB)",
                bits.bytes() >> 20,
                bytes_for_keys(keys.saturating_mul(2)).div_ceil(1 << 20),
            )
        })
    }

    /// The size of a filter for this many entries and as many more.
    fn bytes_for(&self, entries: u64) -> usize {
        let wanted = bytes_for_keys(entries.saturating_mul(2).max(KEYS_MIN));
        usize::try_from(wanted).unwrap_or(usize::MAX).min(self.bytes_max)
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}

/// A filter that is being built.
pub(super) struct NextFilter(Arc<Bits>);

impl Bits {
    fn new(bytes: usize) -> Self {
        let words = bytes.div_ceil(size_of::<u64>()).max(1);
        let bloom = AtomicBloomFilter::from_vec(vec![0; words]).hashes(HASHES);
        Self { bloom, keys: AtomicU64::new(0) }
    }

    #[inline]
    fn insert(&self, hash: u64) {
        let was_there = self.bloom.insert_hash(hash);
        self.keys.fetch_add(u64::from(!was_there), Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.bloom.num_bits() / 8
    }

    fn keys_max(&self) -> u64 {
        self.bloom.num_bits() as u64 / BITS_PER_KEY
    }
}

fn bytes_for_keys(keys: u64) -> u64 {
    keys.saturating_mul(BITS_PER_KEY).div_ceil(8)
}

impl fmt::Debug for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFilter").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> String {
        format!("o\u{1f}api\u{1f}per-user\u{1f}user={number:012}")
    }

    /// Builds the filter for the even numbers below twice this many.
    fn build(filter: &KeyFilter, entries: u64) {
        let next = filter.begin_build(entries).expect("it is due");
        for number in 0..entries {
            filter.insert_into(&next, key(2 * number).as_bytes());
        }
        filter.finish_build(next);
    }

    fn passing_percent(filter: &KeyFilter, keys: u64) -> f64 {
        let passing = (0..keys).filter(|number| filter.may_contain(&key(2 * number + 1))).count();
        passing as f64 * 100.0 / keys as f64
    }

    #[test]
    fn every_key_passes_until_the_filter_is_built() {
        let filter = KeyFilter::new(1 << 20);
        assert!(filter.may_contain("any"));
        assert!(!filter.is_built());
        build(&filter, 0);
        assert!(!filter.may_contain("any"));
        filter.insert(b"any");
        assert!(filter.may_contain("any"));
    }

    #[test]
    fn no_key_is_missed_and_few_others_pass() {
        let filter = KeyFilter::new(16 << 20);
        build(&filter, 200_000);
        assert!((0..200_000).all(|number| filter.may_contain(&key(2 * number))));
        assert!(passing_percent(&filter, 200_000) < 0.5);
        for number in 200_000..400_000 {
            filter.insert(key(2 * number).as_bytes());
        }
        assert!((0..400_000).all(|number| filter.may_contain(&key(2 * number))));
        assert!(passing_percent(&filter, 400_000) < 1.5);
        assert_eq!(filter.warning(), None);
    }

    #[test]
    fn a_small_budget_is_kept_and_warned_about() {
        let filter = KeyFilter::new(64 << 10);
        build(&filter, 300_000);
        assert!(filter.bytes() <= 64 << 10);
        assert!((0..300_000).all(|number| filter.may_contain(&key(2 * number))));
        let warning = filter.warning().expect("it is too small");
        assert!(warning.contains("(hint: "), "{warning}");
        // A larger one is not allowed, so none is built.
        assert!(filter.begin_build(300_000).is_none());
    }

    #[test]
    fn a_filter_without_a_budget_is_never_built() {
        let filter = KeyFilter::new(0);
        assert!(filter.begin_build(10).is_none());
        filter.insert(b"key");
        assert!(filter.may_contain("other"));
    }

    #[test]
    fn keys_that_are_added_during_a_build_are_kept() {
        let filter = KeyFilter::new(16 << 20);
        build(&filter, 10);
        for number in 0..70_000 {
            filter.insert(key(number).as_bytes());
        }
        let next = filter.begin_build(70_010).expect("it has more keys than it was made for");
        assert!(filter.begin_build(70_010).is_none(), "one is being built");
        filter.insert(b"during");
        assert!(filter.may_contain("during") && filter.is_built());
        filter.finish_build(next);
        assert!(filter.may_contain("during"));
        assert!(!filter.may_contain("never"));
    }

    #[test]
    fn deleted_keys_make_a_new_filter_due() {
        let filter = KeyFilter::new(160 << 10);
        build(&filter, 60_000);
        for number in 0..100_000 {
            filter.insert(key(2 * number + 1).as_bytes());
        }
        assert!(filter.begin_build(150_000).is_some() || filter.bytes() == 160 << 10);
        filter.cancel_build();
        let next = filter.begin_build(1_000).expect("most keys were deleted");
        // The old one and the new one do not fit together, or they do; the budget holds.
        assert!(filter.bytes() <= 160 << 10);
        filter.finish_build(next);
        assert!(filter.bytes() <= 160 << 10);
    }
}
