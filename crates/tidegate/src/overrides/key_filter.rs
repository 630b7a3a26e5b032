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
//! - It was added before the filter took keys. Then it was in the store before the scan, and the scan finds it. Where scans
//!   see changes late, the feed adds the last changed keys again (`feed.rs`).
//! - It was added, or will be, after that. Then it is in the filter before the edit is acknowledged or the change is used.
//!
//! If changes were missed, the filter is dropped ([`clear`](KeyFilter::clear)) and built again.
//!
//! # Size
//!
//! The number of keys is not known before the scan. If a filter becomes too small, a larger one is built from a new scan, while the
//! smaller one stays in use. If a scan finds more keys than fit in the largest one, there is no
//! filter: all keys pass until everything is read again. The filters of all sizes stay allocated, so that a decision reads them
//! without a lock or a counter. So the budget is for all of them: the largest one takes three quarters of it, and each smaller
//! one a quarter of the next.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bits for each key at the most keys that a filter is made for.
const BITS_PER_KEY: u64 = 12;
/// Bits that a key sets. With [`BITS_PER_KEY`], 1 % of other keys pass.
const HASHES: u32 = 5;
/// A position in a word has this many bits.
const POSITION_BITS: u32 = u64::BITS.ilog2();
/// The first filter has at least this many bytes, unless the budget is smaller: room for 87,000 keys.
const BYTES_MIN: usize = 128 << 10;
/// How much larger the next filter is. Then all scans together read a third more than the last one.
const GROWTH: usize = 4;
/// How many sizes there are at most. With that many, the largest one has at least 2 TiB.
const SIZES: usize = 13;

/// A filter of the keys that have overrides.
pub(super) struct KeyFilter {
    stage: AtomicStage,
    /// One of each size. They are allocated when they are needed, and kept for the next time.
    sizes: [OnceLock<FilterBits>; SIZES],
    /// The bytes of the largest one. 0 if none is built.
    largest_bytes: usize,
    /// The number of the largest size.
    largest: usize,
}

/// Which filters take keys. The count of changes is in the same word, so a decision that reads while a filter is emptied knows it.
#[derive(Debug, Default)]
struct AtomicStage(AtomicU64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage {
    changes: u64,
    /// The filter in use. Without one, all keys pass.
    current: Option<usize>,
    /// A filter that is being built.
    next: Option<usize>,
}

struct FilterBits {
    words: Box<[AtomicU64]>,
    /// Keys that were added, except for those that seemed to be there already.
    keys: AtomicU64,
}

/// A filter that is being built from a scan.
pub(super) struct FilterBuild {
    size: usize,
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

/// The feed calls all methods that change the filter, one at a time. Edits call [`insert`](Self::insert) at any time.
impl KeyFilter {
    /// A filter that all keys pass until it is built. All sizes together have at most `bytes_max` bytes. With 0 none is built.
    pub fn new(bytes_max: usize) -> Self {
        let largest_bytes = bytes_max - bytes_max.div_ceil(GROWTH);
        let smaller = std::iter::successors(Some(largest_bytes / GROWTH), |bytes| Some(bytes / GROWTH));
        let largest = smaller.take(SIZES - 1).take_while(|bytes| *bytes >= BYTES_MIN).count();
        let sizes = std::array::from_fn(|_| OnceLock::new());
        Self { stage: AtomicStage::default(), sizes, largest_bytes, largest }
    }

    /// Whether a key with this hash may have overrides. If not, it has none.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let stage = self.stage.0.load(Ordering::Acquire);
        let Some(bits) = filter_of(stage).and_then(|size| self.sizes[size].get()) else { return true };
        if bits.contains(hash) {
            return true;
        }
        // If the filter was emptied meanwhile, this sees the change: `AtomicStage::change` has the other fence.
        fence(Ordering::Acquire);
        self.stage.0.load(Ordering::Relaxed) != stage
    }

    /// Adds a key, which is in the store already.
    pub fn insert(&self, hash: u64) {
        let Stage { current, next, .. } = self.stage.get();
        for size in current.into_iter().chain(next) {
            self.bits(size).insert(hash);
        }
    }

    /// Whether a filter is in use.
    pub fn is_built(&self) -> bool {
        self.stage.get().current.is_some()
    }

    /// The memory of the filters, in bytes.
    pub fn bytes(&self) -> usize {
        self.sizes.iter().filter_map(|bits| bits.get()).map(FilterBits::bytes).sum()
    }

    /// Takes all filters out of use, because keys may have been missed. All keys pass.
    pub fn clear(&self) {
        self.stage.change(None, None);
    }

    /// Takes all filters out of use, and begins to build one.
    pub fn restart(&self) -> Option<FilterBuild> {
        self.clear();
        self.begin(0)
    }

    /// Begins to build a larger filter, if the current one has more keys than it was made for. Not while one is being built.
    pub fn grow(&self) -> Option<FilterBuild> {
        let size = self.stage.get().current?;
        let bits = self.bits(size);
        let has_room = bits.keys.load(Ordering::Relaxed) <= bits.keys_max();
        // More keys pass the largest one than it is made for.
        if has_room || size == self.largest { None } else { self.begin(size + 1) }
    }

    /// Begins again with a larger filter. `None` if the budget has no room for one: then all keys pass.
    pub fn begin_larger(&self, build: &FilterBuild) -> Option<FilterBuild> {
        if build.size == self.largest {
            self.clear();
            return None;
        }
        self.begin(build.size + 1)
    }

    /// Begins to build the filter of a size, which is not in use.
    fn begin(&self, size: usize) -> Option<FilterBuild> {
        if self.largest_bytes == 0 {
            return None;
        }
        let current = self.stage.get().current;
        self.stage.change(current, None);
        self.bits(size).empty();
        self.stage.change(current, Some(size));
        Some(FilterBuild { size, after: None })
    }

    /// Adds a key that the scan found. Says whether the filter still has room.
    pub fn insert_scanned(&self, build: &FilterBuild, hash: u64) -> FilterRoom {
        let bits = self.bits(build.size);
        bits.insert(hash);
        let (keys, keys_max) = (bits.keys.load(Ordering::Relaxed), bits.keys_max());
        // Leave room for new keys, unless there is no larger filter.
        let scanned_max = if build.size == self.largest { keys_max } else { keys_max - keys_max / 4 };
        if keys <= scanned_max { FilterRoom::Enough } else { FilterRoom::TooSmall }
    }

    /// Puts a filter into use that has all keys of the scan.
    pub fn finish(&self, FilterBuild { size, .. }: FilterBuild) {
        self.stage.change(Some(size), None);
    }

    fn bytes_of(&self, size: usize) -> usize {
        (size..self.largest).fold(self.largest_bytes, |bytes, _| bytes / GROWTH)
    }

    fn bits(&self, size: usize) -> &FilterBits {
        self.sizes[size].get_or_init(|| FilterBits::new(self.bytes_of(size)))
    }
}

/// The bits of a word: current filter plus 1, next filter plus 1, and the changes.
const FILTER_BITS: u32 = 4;
const FILTER_MASK: u64 = (1 << FILTER_BITS) - 1;

impl AtomicStage {
    fn get(&self) -> Stage {
        let word = self.0.load(Ordering::Acquire);
        Stage {
            changes: word >> (2 * FILTER_BITS),
            current: filter_of(word),
            next: filter_of(word >> FILTER_BITS),
        }
    }

    fn change(&self, current: Option<usize>, next: Option<usize>) {
        let number = |filter: Option<usize>| filter.map_or(0, |filter| filter as u64 + 1);
        let changes = self.get().changes + 1;
        let word = changes << (2 * FILTER_BITS) | number(next) << FILTER_BITS | number(current);
        self.0.store(word, Ordering::Release);
        // The change is seen before bits that are emptied after it.
        fence(Ordering::Release);
    }
}

/// The filter in the lowest bits of a word.
#[inline]
fn filter_of(word: u64) -> Option<usize> {
    ((word & FILTER_MASK) as usize).checked_sub(1)
}

impl FilterBits {
    fn new(bytes: usize) -> Self {
        let words = (bytes / size_of::<u64>()).max(1);
        // Pages that no key sets a bit in are never touched.
        Self { words: bytemuck::zeroed_slice_box(words), keys: AtomicU64::new(0) }
    }

    /// Removes all keys, if there are any.
    fn empty(&self) {
        if self.keys.swap(0, Ordering::Relaxed) > 0 {
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
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
        const KEYS: u64 = 520_000;
        // 12 MiB, 3 MiB, 768 KiB and this:
        const SMALLEST: usize = 192 << 10;
        let (filter, random) = (KeyFilter::new(16 << 20), RandomState::new());
        let scanned = || hashes(&random, true, KEYS / 2).collect();
        let scans = build(&filter, filter.restart(), scanned);
        assert_eq!((scans, filter.bytes()), (2, SMALLEST * (1 + GROWTH)));
        assert!(passing_percent(&filter, &random) < 0.5);
        // Up to the most keys that it is made for.
        hashes(&random, true, KEYS).for_each(|hash| filter.insert(hash));
        assert!(filter.grow().is_none());
        let percent = passing_percent(&filter, &random);
        assert!((0.5..1.5).contains(&percent), "{percent}");
        // And beyond.
        hashes(&random, true, 2 * KEYS).for_each(|hash| filter.insert(hash));
        let building = filter.grow();
        assert!(building.is_some() && filter.is_built());
        filter.insert(7);
        build(&filter, building, || hashes(&random, true, 2 * KEYS).collect());
        assert!(filter.may_contain(7));
        assert!(hashes(&random, true, 2 * KEYS).all(|hash| filter.may_contain(hash)));
        assert_eq!(filter.bytes(), SMALLEST * (1 + GROWTH + GROWTH * GROWTH));
        // From the beginning, with the same memory.
        build(&filter, filter.restart(), || hashes(&random, true, 10).collect());
        assert!(hashes(&random, true, 10).all(|hash| filter.may_contain(hash)));
        assert!(passing_percent(&filter, &random) < 0.1);
        assert_eq!(filter.bytes(), SMALLEST * (1 + GROWTH + GROWTH * GROWTH));
    }

    #[test]
    fn beyond_the_budget_there_is_no_filter() {
        let random = RandomState::new();
        for (bytes_max, scans) in [(0, 0), (7, 1), (BYTES_MIN, 1), (8 * BYTES_MIN, 2)] {
            let filter = KeyFilter::new(bytes_max);
            let keys = || hashes(&random, true, 700_000).collect();
            assert_eq!(build(&filter, filter.restart(), keys), scans, "{bytes_max}");
            assert!(!filter.is_built());
            assert_eq!(passing_percent(&filter, &random), 100.0);
            assert!(filter.bytes() <= bytes_max.max(8), "{} of {bytes_max}", filter.bytes());
        }
    }

    #[test]
    fn deleted_keys_are_gone_from_the_next_filter() {
        let (filter, random) = (KeyFilter::new(16 << 20), RandomState::new());
        build(&filter, filter.restart(), Vec::new);
        hashes(&random, true, 200_000).for_each(|hash| filter.insert(hash));
        build(&filter, filter.grow(), || hashes(&random, true, 1_000).collect());
        assert!(hashes(&random, true, 1_000).all(|hash| filter.may_contain(hash)));
        let deleted = hashes(&random, true, 200_000).filter(|hash| filter.may_contain(*hash)).count();
        assert!(deleted < 1_200, "{deleted}");
    }

    /// A filter is emptied and built again and again, while threads look keys up that all have overrides.
    #[test]
    fn no_key_is_missed_while_a_filter_is_emptied() {
        let (filter, random) = (KeyFilter::new(BYTES_MIN), RandomState::new());
        let keys: Vec<u64> = hashes(&random, true, 64).collect();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        assert!(keys.iter().all(|hash| filter.may_contain(*hash)));
                    }
                });
            }
            for _ in 0..500 {
                build(&filter, filter.restart(), || keys.clone());
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
