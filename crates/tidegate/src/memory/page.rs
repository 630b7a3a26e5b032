//! A page: 4 KiB with the states of up to 168 keys, and its own lock.
//!
//! ```text
//! 64 bytes    version | count | depth | idle from | low bits of all tags | ...
//! 24 bytes    tag | state                                  168 times
//! ```
//!
//! A tag is the key's 64-bit hash, in which the low bits, which are the same in the whole page, are replaced by the
//! [owner](super::owners). Zero marks a free slot. Slots come in groups of eight. A key is in its home group,
//! if possible in the lane that its hash names. If the group is full, the key is in the next group that is not. A
//! search ends at the first group with a free slot. That works because slots are never freed one by one, only
//! overwritten.
//!
//! The version is a sequence lock (Lameter 2005; in the C11 memory model, Boehm 2012): even when no thread writes, odd
//! while one does. A reader takes the version, reads, and checks that the version is unchanged. It writes nothing, so a
//! flood of denials runs from the caches of all cores. A writer swaps the even version that it read for the odd one,
//! which locks the page and proves that what it read is still valid. Words are written with release and read with
//! acquire order: a thread that sees a word of a write also sees the odd version before it.

use tidegate_core::{PackedState, Timestamp};

use super::owners::{OWNER_MASK, OWNERS, Owner, fair_counts};
use crate::sync::{AtomicU64, Ordering, spin_or_yield};

/// Words in a page. Under loom, a page has one group of slots.
const PAGE_WORDS: usize = if cfg!(loom) { HEADER_WORDS + GROUP_SLOTS * SLOT_WORDS } else { 512 };
/// Bytes in a page.
pub(super) const PAGE_BYTES: usize = PAGE_WORDS * size_of::<u64>();

const HEADER_WORDS: usize = 8;
const SLOT_WORDS: usize = 3;
const SLOTS: usize = (PAGE_WORDS - HEADER_WORDS) / SLOT_WORDS;
const GROUP_SLOTS: usize = 8;
const GROUPS: usize = SLOTS / GROUP_SLOTS;
/// A page counts as full a little before it is. Otherwise a search for a missing key would visit all of it.
const COUNT_MAX: u64 = if cfg!(loom) { 2 } else { 156 };
/// How many groups of a full page are searched for an idle state.
const SEARCH_GROUPS: usize = 2;
/// A full page makes room for its states divided by this. Otherwise it would make room again for every new key.
const ROOM_DIVISOR: usize = 8;
/// After this many copies that were disturbed by writers, the page is locked for the next one.
const COPY_ATTEMPTS_MAX: u32 = 4;

const VERSION: usize = 0;
const COUNT: usize = 1;
const DEPTH: usize = 2;
const IDLE_FROM: usize = 3;
const LOW_BITS: usize = 4;

/// The memory of a page.
pub(super) type PageWords = [AtomicU64; PAGE_WORDS];

/// A page that any thread may read.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    words: &'a PageWords,
}

/// An even version. What was read between taking it and finding it unchanged is consistent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

/// A slot of a page, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageSlot(usize);

/// The words of a slot.
#[derive(Clone, Copy)]
pub(super) struct SlotWords<'a>(&'a [AtomicU64; SLOT_WORDS]);

/// A key and its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageEntry {
    pub tag: u64,
    pub owner: Owner,
    pub state: PackedState,
}

/// A page that only this thread may write, until this is dropped.
pub(super) struct LockedPage<'a> {
    page: Page<'a>,
    version: u64,
}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn new(words: &'a PageWords) -> Self {
        Self { words }
    }

    /// The version to read under. None while a thread writes.
    #[inline(always)]
    pub(super) fn version(self) -> Option<Version> {
        let version = self.words[VERSION].load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(Version(version))
    }

    /// Whether no thread wrote since `version` was taken.
    #[inline(always)]
    pub(super) fn is_unchanged(self, version: Version) -> bool {
        self.words[VERSION].load(Ordering::Relaxed) == version.0
    }

    /// The slot of `tag`.
    #[inline(always)]
    pub(super) fn find(self, tag: u64) -> Option<PageSlot> {
        let first = home_slot(tag);
        if is_same_key(self.tag(first), tag) { Some(first) } else { self.find_elsewhere(tag) }
    }

    /// The words of the slot of `tag`. As [`find`](Self::find), for the fast path: an index would be checked at each use.
    #[inline(always)]
    pub(super) fn find_words(self, tag: u64) -> Option<SlotWords<'a>> {
        let first = SlotWords(self.slot(home_slot(tag)));
        if first.is_of(tag) { Some(first) } else { self.find_words_elsewhere(tag) }
    }

    /// Most other keys are one or two lanes further, so this looks at one lane after the other.
    #[inline(never)]
    fn find_words_elsewhere(self, tag: u64) -> Option<SlotWords<'a>> {
        let mut near = lanes(home_group(tag), tag).skip(1).map(|slot| SlotWords(self.slot(slot)));
        near.find(|slot| slot.is_of(tag))
            .or_else(|| self.find_elsewhere(tag).map(|slot| SlotWords(self.slot(slot))))
    }

    /// Loads the words that a decision about `tag` needs first, and returns them mixed.
    #[inline(always)]
    pub(super) fn touch(self, tag: u64) -> u64 {
        let [tag_word, _, last_word] = self.slot(home_slot(tag));
        let words = [&self.words[VERSION], tag_word, last_word];
        words.iter().fold(0, |mixed, word| mixed ^ word.load(Ordering::Relaxed))
    }

    /// The slot of `tag`, if it is not in its home lane.
    #[inline(never)]
    fn find_elsewhere(self, tag: u64) -> Option<PageSlot> {
        let mut group = home_group(tag);
        for _ in 0..GROUPS {
            // No branch per lane: the right lane cannot be predicted.
            let (mut hits, mut frees) = (0_u32, 0_u32);
            for lane in 0..GROUP_SLOTS {
                let stored_tag = self.tag(slot(group, lane));
                hits |= u32::from(is_same_key(stored_tag, tag)) << lane;
                frees |= u32::from(stored_tag == 0) << lane;
            }
            if hits != 0 {
                return Some(slot(group, hits.trailing_zeros() as usize));
            }
            if frees != 0 {
                return None;
            }
            group = next_group(group);
        }
        None
    }

    /// Locks the page if no thread wrote since `version` was taken.
    #[inline(always)]
    pub(super) fn lock_unchanged(self, version: Version) -> Option<LockedPage<'a>> {
        let locked = version.0 + 1;
        self.words[VERSION]
            .compare_exchange(version.0, locked, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            // Not `then_some`: it would drop, and so release, a lock that was never taken.
            .then(|| LockedPage { page: self, version: locked })
    }

    /// Locks the page.
    pub(super) fn lock(self) -> LockedPage<'a> {
        let mut step = 0;
        loop {
            if let Some(locked) = self.version().and_then(|version| self.lock_unchanged(version)) {
                return locked;
            }
            spin_or_yield(&mut step);
        }
    }

    /// Replaces the contents of `entries` with all keys and states, as they are at one instant.
    pub(super) fn copy_to(self, entries: &mut Vec<PageEntry>) {
        let copy = |entries: &mut Vec<PageEntry>| {
            entries.clear();
            let low_bits = self.words[LOW_BITS].load(Ordering::Acquire);
            entries.extend((0..SLOTS).map(PageSlot).filter_map(|slot| match self.tag(slot) {
                0 => None,
                stored_tag => Some(PageEntry {
                    tag: stored_tag & !OWNER_MASK | low_bits,
                    owner: Owner::from_tag(stored_tag),
                    state: self.state(slot),
                }),
            }));
        };
        let mut step = 0;
        for _ in 0..COPY_ATTEMPTS_MAX {
            if let Some(version) = self.version() {
                copy(entries);
                if self.is_unchanged(version) {
                    return;
                }
            }
            spin_or_yield(&mut step);
        }
        // Held for as long as it takes to read 4 KiB.
        let locked = self.lock();
        copy(entries);
        drop(locked);
    }

    #[inline(always)]
    pub(super) fn state(self, slot: PageSlot) -> PackedState {
        SlotWords(self.slot(slot)).state()
    }

    #[inline(always)]
    fn tag(self, slot: PageSlot) -> u64 {
        self.slot(slot)[0].load(Ordering::Acquire)
    }

    #[inline(always)]
    fn slot(self, PageSlot(number): PageSlot) -> &'a [AtomicU64; SLOT_WORDS] {
        &self.words[HEADER_WORDS..].as_chunks().0[number]
    }
}

impl SlotWords<'_> {
    /// Whether the slot has this key.
    #[inline(always)]
    pub(super) fn is_of(self, tag: u64) -> bool {
        is_same_key(self.0[0].load(Ordering::Acquire), tag)
    }

    #[inline(always)]
    pub(super) fn state(self) -> PackedState {
        let [_, first, second] = self.0;
        PackedState::from_words([first.load(Ordering::Acquire), second.load(Ordering::Acquire)])
    }
}

impl<'a> LockedPage<'a> {
    /// Writes a state to the slot of its tag, which is in this page.
    #[inline(always)]
    pub(super) fn set_words(&mut self, SlotWords([_, first, second]): SlotWords<'a>, state: PackedState) {
        let words = state.to_words();
        first.store(words[0], Ordering::Release);
        second.store(words[1], Ordering::Release);
    }

    /// The slot of `tag`.
    pub(super) fn find(&self, tag: u64) -> Option<PageSlot> {
        self.page.find(tag)
    }

    /// The state in `slot`.
    #[inline]
    pub(super) fn state(&self, slot: PageSlot) -> PackedState {
        self.page.state(slot)
    }

    /// Writes a state to the slot of its tag.
    #[inline]
    pub(super) fn set_state(&mut self, slot: PageSlot, state: PackedState) {
        self.set_words(SlotWords(self.page.slot(slot)), state);
    }

    /// A slot for `tag`, which is not in the page. States that are idle at `now` may be overwritten. Slots in `reserved`
    /// may not. None if the page is full.
    pub(super) fn find_slot_for(&self, tag: u64, now: Timestamp, reserved: &[PageSlot]) -> Option<PageSlot> {
        let may_grow = !self.is_full();
        let mut nearest_reset: Option<(PackedState, PageSlot)> = None;
        let mut group = home_group(tag);
        for groups_seen in 1..=GROUPS {
            let mut free = None;
            for slot in lanes(group, tag) {
                if reserved.contains(&slot) {
                    continue;
                }
                if self.page.tag(slot) == 0 {
                    free = free.or(Some(slot));
                } else {
                    let state = self.state(slot);
                    if state.is_idle_at(now) {
                        return Some(slot);
                    }
                    if nearest_reset.is_none_or(|(least, _)| state < least) {
                        nearest_reset = Some((state, slot));
                    }
                }
            }
            match free {
                Some(free) if may_grow => return Some(free),
                // A search would not look past a group with a free slot.
                Some(_) => return None,
                None if !may_grow && groups_seen >= SEARCH_GROUPS => return None,
                None => group = next_group(group),
            }
        }
        // The page is not full, but the other charges of the plan have reserved its free slots. Evict a state.
        nearest_reset.filter(|_| may_grow).map(|(_, slot)| slot)
    }

    /// Whether `slot` holds a key other than `tag` with a state that is live at `now`.
    pub(super) fn would_evict_live(&self, slot: PageSlot, tag: u64, now: Timestamp) -> bool {
        let stored_tag = self.page.tag(slot);
        stored_tag != 0 && !is_same_key(stored_tag, tag) && !self.state(slot).is_idle_at(now)
    }

    /// Puts a key into a slot, and overwrites its contents.
    pub(super) fn put(&mut self, slot: PageSlot, stored_tag: u64, state: PackedState) {
        if self.page.tag(slot) == 0 {
            self.set_header(COUNT, self.count() + 1);
        }
        let idle_from = state.last_instant().map_or(u64::MAX, Timestamp::as_nanos);
        self.set_header(IDLE_FROM, self.header(IDLE_FROM).min(idle_from));
        self.page.slot(slot)[0].store(stored_tag, Ordering::Release);
        self.set_state(slot, state);
    }

    /// Whether a state may be idle at `now`. May miss a state that was added and then refunded.
    pub(super) fn may_hold_idle(&self, now: Timestamp) -> bool {
        self.header(IDLE_FROM) < now.as_nanos()
    }

    /// Drops all states that are idle at `now`. Returns whether that makes enough room for several keys.
    pub(super) fn drop_idle(&mut self, now: Timestamp) -> bool {
        if !self.may_hold_idle(now) {
            return false;
        }
        let entries = self.take_all();
        let before = entries.len();
        let live = entries.into_iter().filter(|(_, state)| !state.is_idle_at(now));
        let live_count = live.map(|(stored_tag, state)| self.add(stored_tag, state)).count();
        before - live_count >= before.div_ceil(ROOM_DIVISOR)
    }

    /// Evicts live states, so that there is room for several keys: see [`owners`](super::owners). Returns how many.
    pub(super) fn evict(&mut self) -> u64 {
        let mut entries = self.take_all();
        let owner = |stored_tag: u64| Owner::from_tag(stored_tag).index();
        let mut counts = [0; OWNERS];
        entries.iter().for_each(|(stored_tag, _)| counts[owner(*stored_tag)] += 1);
        let evictions = entries.len().div_ceil(ROOM_DIVISOR);
        let kept = fair_counts(counts, evictions);
        entries.sort_unstable_by_key(|(_, state)| *state);
        for (stored_tag, state) in entries {
            let count = &mut counts[owner(stored_tag)];
            if *count > kept[owner(stored_tag)] {
                *count -= 1;
            } else {
                self.add(stored_tag, state);
            }
        }
        evictions as u64
    }

    /// The low bits that all tags of this page share, and that are not stored with them.
    pub(super) fn low_bits(&self) -> u64 {
        self.header(LOW_BITS)
    }

    pub(super) fn set_low_bits(&mut self, low_bits: u64) {
        self.set_header(LOW_BITS, low_bits & OWNER_MASK);
    }

    /// How many low bits of the tag all keys of this page share.
    pub(super) fn depth(&self) -> u32 {
        u32::try_from(self.header(DEPTH)).unwrap_or(u32::MAX)
    }

    pub(super) fn set_depth(&mut self, depth: u32) {
        self.set_header(DEPTH, u64::from(depth));
    }

    /// Whether a new key finds no free slot.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= COUNT_MAX
    }

    /// Empties the page, and returns its contents, with tags as they are stored.
    pub(super) fn take_all(&mut self) -> Vec<(u64, PackedState)> {
        let mut entries = Vec::with_capacity(SLOTS);
        for slot in (0..SLOTS).map(PageSlot) {
            let tag = self.page.tag(slot);
            if tag != 0 {
                entries.push((tag, self.state(slot)));
                self.page.slot(slot)[0].store(0, Ordering::Release);
            }
        }
        self.set_header(COUNT, 0);
        self.set_header(IDLE_FROM, u64::MAX);
        entries
    }

    /// Adds a key that is not in the page. The page must have a free slot.
    pub(super) fn add(&mut self, stored_tag: u64, state: PackedState) {
        let mut group = home_group(stored_tag);
        for _ in 0..GROUPS {
            if let Some(free) = lanes(group, stored_tag).find(|slot| self.page.tag(*slot) == 0) {
                return self.put(free, stored_tag, state);
            }
            group = next_group(group);
        }
    }

    fn count(&self) -> u64 {
        self.header(COUNT)
    }

    fn header(&self, word: usize) -> u64 {
        self.page.words[word].load(Ordering::Acquire)
    }

    fn set_header(&mut self, word: usize, value: u64) {
        self.page.words[word].store(value, Ordering::Release);
    }
}

impl Drop for LockedPage<'_> {
    #[inline]
    fn drop(&mut self) {
        self.page.words[VERSION].store(self.version + 1, Ordering::Release);
    }
}

/// Whether a stored tag is that of this key, whatever its owner is.
///
/// Zero, which marks a free slot, is the same as a hash below 64. In ten million keys, such a hash is tens of thousands of
/// times less likely than two keys with the same hash.
#[inline(always)]
fn is_same_key(stored_tag: u64, tag: u64) -> bool {
    stored_tag ^ tag <= OWNER_MASK
}

/// The slot where `tag` is put if it is free, so that most keys are found at the first attempt. Its bits choose the page
/// only in very large tables.
#[inline(always)]
fn home_slot(tag: u64) -> PageSlot {
    #[allow(clippy::cast_possible_truncation, reason = "below GROUPS * GROUP_SLOTS")]
    return PageSlot((((tag >> 32) * (GROUPS * GROUP_SLOTS) as u64) >> 32) as usize);
}

/// The group where a search for `tag` begins.
#[inline]
fn home_group(tag: u64) -> usize {
    home_slot(tag).0 / GROUP_SLOTS
}

/// The lane of the home group where `tag` is put if it is free.
#[inline]
fn home_lane(tag: u64) -> usize {
    home_slot(tag).0 % GROUP_SLOTS
}

/// The slots of a group, starting at the home lane of `tag`.
fn lanes(group: usize, tag: u64) -> impl Iterator<Item = PageSlot> {
    (0..GROUP_SLOTS).map(move |step| slot(group, (home_lane(tag) + step) % GROUP_SLOTS))
}

#[inline(always)]
fn slot(group: usize, lane: usize) -> PageSlot {
    PageSlot(group * GROUP_SLOTS + lane)
}

#[inline]
fn next_group(group: usize) -> usize {
    if group + 1 == GROUPS { 0 } else { group + 1 }
}
