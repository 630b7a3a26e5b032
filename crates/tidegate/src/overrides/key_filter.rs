//! A filter of the keys that have overrides, so that a decision about any other key asks nothing else.
//!
//! It is a Bloom filter: it never misses a key, and some other keys pass it. All bits of a key are in one word, so a look-up
//! reads memory once ("Cache-, Hash- and Space-Efficient Bloom Filters", Putze, Sanders and Singler, 2007). At 12 bits for
//! a key, one other key in a hundred passes, and is then looked up in the cache. A deletion leaves its bits until the filter
//! is built again.
//!
//! # Why no key is missed
//!
//! Until a filter is complete, all keys pass. It is built from a scan of the config store ([`FilterBuild`]), and takes new keys
//! from the moment before the scan begins. A key comes from an edit of this node, or from the feed. Both add it after it
//! is in the store. So for each key in the store, one of these holds:
//!
//! - It was added before the filter took keys. Then it was in the store before the scan, and the scan finds it.
//! - It was added, or will be, after that. Then it is in the filter before the edit is acknowledged or the change is used.
//!
//! If changes were missed, the filter is dropped ([`clear`](KeyFilter::clear)) and built again.
//!
//! # Size
//!
//! The number of keys is not known before the scan. If a filter becomes too small, a larger one is built from a new scan, while the
//! smaller one stays in use. The largest one is given by the budget. If a scan finds more keys than fit in it, there is no
//! filter: all keys pass until everything is read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

/// Bits for each key at the most keys that a filter is made for.
const BITS_PER_KEY: u64 = 12;
/// Bits that a key sets. With [`BITS_PER_KEY`], 1 % of other keys pass.
const HASHES: u32 = 5;
/// A position in a word has this many bits.
const POSITION_BITS: u32 = u64::BITS.ilog2();
/// The first filter has this many bytes: room for 87,000 keys.
const BYTES_MIN: usize = 128 << 10;
/// How much larger the next filter is. Then all scans together read a third more than the last one.
const GROWTH: usize = 4;

/// A filter of the keys that have overrides.
pub(super) struct KeyFilter {
    stages: ArcSwap<Stages>,
    bytes_max: usize,
}

/// Without a current filter, all keys pass.
#[derive(Default)]
struct Stages {
    current: Option<Arc<FilterBits>>,
    /// A filter that is being built.
    next: Option<Arc<FilterBits>>,
}

struct FilterBits {
    words: Box<[AtomicU64]>,
    /// Keys that were added, except for those that seemed to be there already.
    keys: AtomicU64,
}

/// A filter that is being built from a scan.
pub(super) struct FilterBuild {
    bits: Arc<FilterBits>,
    /// The last key that was scanned.
    pub after: Option<Box<str>>,
}

/// Whether a filter has room for the keys of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterRoom {
    Enough,
    /// The scan has to begin again, with a larger filter.
    TooSmall,
}

impl KeyFilter {
    /// A filter that all keys pass until it is built. Each filter has at most `bytes_max` bytes; with 0 none is built. While a
    /// larger one is built, the one before it takes up to a quarter of that besides.
    pub fn new(bytes_max: usize) -> Self {
        Self { stages: ArcSwap::default(), bytes_max }
    }

    /// Whether a key with this hash may have overrides. If not, it has none.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        match &self.stages.load().current {
            Some(bits) => bits.contains(hash),
            None => true,
        }
    }

    /// Adds a key, which is in the store already.
    pub fn insert(&self, hash: u64) {
        let stages = self.stages.load();
        for bits in stages.current.iter().chain(&stages.next) {
            bits.insert(hash);
        }
    }

    /// Whether a filter is in use.
    pub fn is_built(&self) -> bool {
        self.stages.load().current.is_some()
    }

    /// The memory of the filters, in bytes.
    pub fn bytes(&self) -> usize {
        let stages = self.stages.load();
        stages.current.iter().chain(&stages.next).map(|bits| bits.bytes()).sum()
    }

    /// Drops all filters, because keys may have been missed. All keys pass.
    pub fn clear(&self) {
        self.stages.store(Arc::default());
    }

    /// Drops all filters, and begins to build one.
    pub fn restart(&self) -> Option<FilterBuild> {
        self.clear();
        self.begin(BYTES_MIN)
    }

    /// Begins to build a larger filter, if the current one has more keys than it was made for. Not while one is being built.
    pub fn grow(&self) -> Option<FilterBuild> {
        let bytes = {
            let stages = self.stages.load();
            let current = stages.current.as_ref()?;
            (current.keys.load(Ordering::Relaxed) > current.keys_max()).then_some(current.bytes())?
        };
        // Most keys may have been deleted. The scan says whether it is too small.
        if bytes < self.bytes_max { self.begin(bytes) } else { None }
    }

    /// Begins again with a larger filter. `None` if the budget has no room for one: then all keys pass.
    pub fn begin_larger(&self, build: &FilterBuild) -> Option<FilterBuild> {
        let bytes = build.bits.bytes();
        if bytes >= self.bytes_max {
            self.clear();
            return None;
        }
        self.begin(bytes * GROWTH)
    }

    fn begin(&self, bytes: usize) -> Option<FilterBuild> {
        let bytes = bytes.min(self.bytes_max);
        if bytes == 0 {
            return None;
        }
        let bits = Arc::new(FilterBits::new(bytes));
        let current = self.stages.load().current.clone();
        self.stages.store(Arc::new(Stages { current, next: Some(Arc::clone(&bits)) }));
        Some(FilterBuild { bits, after: None })
    }

    /// Adds a key that the scan found. Says whether the filter still has room.
    pub fn insert_scanned(&self, build: &FilterBuild, hash: u64) -> FilterRoom {
        build.bits.insert(hash);
        let (keys, keys_max) = (build.bits.keys.load(Ordering::Relaxed), build.bits.keys_max());
        // Leave room for new keys, unless there is no larger filter.
        let scanned_max =
            if build.bits.bytes() < self.bytes_max { keys_max - keys_max / 4 } else { keys_max };
        if keys <= scanned_max { FilterRoom::Enough } else { FilterRoom::TooSmall }
    }

    /// Puts a filter into use that has all keys of the scan.
    pub fn finish(&self, build: FilterBuild) {
        self.stages.store(Arc::new(Stages { current: Some(build.bits), next: None }));
    }
}

impl FilterBits {
    fn new(bytes: usize) -> Self {
        let words = (bytes / size_of::<u64>()).max(1);
        // Pages that no key sets a bit in are never touched.
        Self { words: bytemuck::zeroed_slice_box(words), keys: AtomicU64::new(0) }
    }

    #[inline]
    fn contains(&self, hash: u64) -> bool {
        let bits = bits_of(hash);
        self.word(hash).load(Ordering::Acquire) & bits == bits
    }

    fn insert(&self, hash: u64) {
        let bits = bits_of(hash);
        let before = self.word(hash).fetch_or(bits, Ordering::Release);
        self.keys.fetch_add(u64::from(before & bits != bits), Ordering::Relaxed);
    }

    /// The upper half of the hash chooses the word, the lower half its bits.
    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        // Below the number of words, which is below 2^32.
        let index = ((hash >> 32) * self.words.len() as u64) >> 32;
        &self.words[index as usize]
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    fn keys_max(&self) -> u64 {
        self.bytes() as u64 * 8 / BITS_PER_KEY
    }
}

#[inline]
fn bits_of(hash: u64) -> u64 {
    let position = |number: u32| (hash >> (number * POSITION_BITS)) % u64::from(u64::BITS);
    (0..HASHES).fold(0, |bits, number| bits | 1 << position(number))
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher as _, RandomState};

    use super::*;

    /// The hash of a key that is added, or of another one.
    fn hashes(random: &RandomState, is_added: bool, keys: u64) -> impl Iterator<Item = u64> {
        (0..keys).map(move |number| random.hash_one((is_added, number)))
    }

    /// Builds a filter from a scan of these keys.
    fn build(filter: &KeyFilter, mut building: Option<FilterBuild>, keys: impl Fn() -> Vec<u64>) -> usize {
        let mut scans = 0;
        while let Some(build) = building {
            scans += 1;
            let is_too_small =
                keys().into_iter().any(|hash| filter.insert_scanned(&build, hash) == FilterRoom::TooSmall);
            building = is_too_small.then(|| filter.begin_larger(&build)).flatten();
            if !is_too_small {
                filter.finish(build);
            }
        }
        scans
    }

    fn passing_percent(filter: &KeyFilter, random: &RandomState) -> f64 {
        let passing = hashes(random, false, 100_000).filter(|hash| filter.may_contain(*hash)).count();
        passing as f64 / 1_000.0
    }

    #[test]
    fn every_key_passes_until_the_filter_is_built() {
        let (filter, random) = (KeyFilter::new(1 << 20), RandomState::new());
        assert_eq!(passing_percent(&filter, &random), 100.0);
        let building = filter.restart();
        assert_eq!(passing_percent(&filter, &random), 100.0);
        build(&filter, building, Vec::new);
        assert_eq!(passing_percent(&filter, &random), 0.0);
        filter.insert(7);
        assert!(filter.may_contain(7));
        filter.clear();
        assert_eq!(passing_percent(&filter, &random), 100.0);
    }

    #[test]
    fn no_key_is_missed_and_few_others_pass() {
        const KEYS: u64 = 350_000;
        let (filter, random) = (KeyFilter::new(16 << 20), RandomState::new());
        let scanned = || hashes(&random, true, KEYS / 2).collect();
        let scans = build(&filter, filter.restart(), scanned);
        assert_eq!((scans, filter.bytes()), (2, BYTES_MIN * GROWTH));
        assert!(passing_percent(&filter, &random) < 0.5);
        // Up to the most keys that it is made for.
        hashes(&random, true, KEYS).for_each(|hash| filter.insert(hash));
        assert!(filter.grow().is_none());
        let percent = passing_percent(&filter, &random);
        assert!((0.5..1.5).contains(&percent), "{percent}");
        // And beyond.
        hashes(&random, true, 2 * KEYS).for_each(|hash| filter.insert(hash));
        let building = filter.grow().and_then(|same_size| filter.begin_larger(&same_size));
        assert!(building.is_some() && filter.is_built());
        filter.insert(7);
        build(&filter, building, || hashes(&random, true, 2 * KEYS).collect());
        assert!(filter.may_contain(7));
        assert!(hashes(&random, true, 2 * KEYS).all(|hash| filter.may_contain(hash)));
        assert_eq!(filter.bytes(), BYTES_MIN * GROWTH * GROWTH);
    }

    #[test]
    fn beyond_the_budget_there_is_no_filter() {
        let random = RandomState::new();
        for (bytes_max, scans) in [(0, 0), (BYTES_MIN, 1), (2 * BYTES_MIN, 2)] {
            let filter = KeyFilter::new(bytes_max);
            let keys = || hashes(&random, true, 200_000).collect();
            assert_eq!(build(&filter, filter.restart(), keys), scans);
            assert!(!filter.is_built());
            assert_eq!((filter.bytes(), passing_percent(&filter, &random)), (0, 100.0));
        }
    }

    #[test]
    fn a_filter_of_deleted_keys_is_built_again_at_its_size() {
        let (filter, random) = (KeyFilter::new(16 << 20), RandomState::new());
        build(&filter, filter.restart(), Vec::new);
        hashes(&random, true, 100_000).for_each(|hash| filter.insert(hash));
        build(&filter, filter.grow(), || hashes(&random, true, 1_000).collect());
        assert_eq!(filter.bytes(), BYTES_MIN);
        assert!(passing_percent(&filter, &random) < 0.1);
    }
}
