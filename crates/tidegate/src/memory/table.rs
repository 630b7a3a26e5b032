//! The table of packed states: extendible hashing over [pages](super::page).
//!
//! From Fagin, Nievergelt, Pippenger and Strong (1979). A directory maps the low bits of a key's address to
//! its page. A page that is full is split in two by one more bit; when a page is split that is alone on its
//! directory entry, the directory doubles by being copied behind itself. So the table grows one 4 KiB page at
//! a time, never rehashes, never moves a page and never frees one, and readers need neither locks nor epochs:
//!
//! 1. look the page up and take its version,
//! 2. look it up again: the same page means it was not split away before the version was taken,
//! 3. read, and find the version unchanged.
//!
//! Memory for all pages that `memory_max` allows is reserved at the start; the operating system provides it as
//! pages are used.

mod walk;

use tidegate_core::Timestamp;

use super::budget::Budget;
use super::page::{LockedPage, PAGE_BYTES, PAGE_WORDS, Page};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock, zeroed_u32, zeroed_u64};

/// Pages at the start: enough that a few hot keys on many cores rarely meet on one page's lock.
const DEPTH_MIN: u32 = if cfg!(loom) { 0 } else { 5 };
/// How much deeper than evenly filled pages need the directory may get. Hashes are random, so the last of
/// these bits are as good as never used; if they were, pages that cannot be split give up states instead.
const DEPTH_SLACK: u32 = 4;
const CACHE_LINE_BYTES: usize = 64;
/// Eight TiB, and the most whose number can be doubled in 32 bits.
const PAGES_MAX: u32 = 1 << 31;

/// A fixed reservation of pages and the directory that finds them.
pub(super) struct Table {
    words: Box<[AtomicU64]>,
    /// Words before the first one at the start of a cache line.
    alignment_words: usize,
    directory: Box<[AtomicU32]>,
    /// The bits of an address that the directory looks at.
    mask: AtomicU64,
    /// Pages in use. Changed under `growing` only.
    pages: AtomicU32,
    pages_max: u32,
    growth_lock: Mutex<()>,
}

/// Whether a page has room, or can get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagePressure {
    /// There is room, or it was not tried to make some.
    Normal,
    /// It was tried: memory is used up and every state of the page is live.
    Exhausted,
}

impl Table {
    /// A table that may grow to `bytes_max`, or to as much as the machine has room to reserve.
    pub(super) fn new(bytes_max: usize, budget: &Budget) -> Self {
        let pages_min = 1_u32 << DEPTH_MIN;
        let pages_max = u32::try_from(bytes_max / PAGE_BYTES).unwrap_or(u32::MAX);
        let mut pages_max = pages_max.clamp(pages_min, PAGES_MAX);
        let (words, directory, skipped) = loop {
            let depth_max = pages_max.next_power_of_two().trailing_zeros() + DEPTH_SLACK;
            let line_words = CACHE_LINE_BYTES / size_of::<u64>();
            let words = zeroed_u64(pages_max as usize * PAGE_WORDS + line_words);
            if let (Some(words), Some(directory)) = (words, zeroed_u32(1 << depth_max)) {
                // Where memory begins must not matter to the model checker, which runs the same thing often.
                let first = if cfg!(loom) { 0 } else { words.as_ptr() as usize };
                let past_line = first % CACHE_LINE_BYTES / size_of::<u64>();
                break (words, directory, (line_words - past_line) % line_words);
            }
            assert!(pages_max > pages_min, "no memory for {pages_min} pages of {PAGE_BYTES} bytes");
            pages_max = (pages_max / 2).max(pages_min);
        };
        let table = Self {
            words,
            alignment_words: skipped,
            directory,
            mask: AtomicU64::new(u64::from(pages_min) - 1),
            pages: AtomicU32::new(pages_min),
            pages_max,
            growth_lock: Mutex::new(()),
        };
        // Without these there is no table, so a store is never so small that they are not there.
        if !budget.try_take_for_pages(pages_min as usize * (PAGE_BYTES + size_of::<u32>())) {
            budget.take_unchecked(u64::from(pages_min) * (PAGE_BYTES + size_of::<u32>()) as u64);
        }
        for page in 0..pages_min {
            table.directory[page as usize].store(page, Ordering::Release);
            table.page(page).lock().set_depth(DEPTH_MIN);
        }
        table
    }

    /// The page that `tag` belongs to now.
    #[inline(always)]
    pub(super) fn page_of(&self, tag: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "the directory is that long")]
        let entry = (tag & self.mask.load(Ordering::Acquire)) as usize;
        self.directory[entry].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn page(&self, page: u32) -> Page<'_> {
        let start = self.alignment_words + page as usize * PAGE_WORDS;
        match self.words[start..].first_chunk() {
            Some(words) => Page::new(words),
            None => unreachable!("page {page} is beyond the {} reserved ones", self.pages_max),
        }
    }

    /// How many pages are in use.
    pub(super) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    /// Whether no page can be added.
    pub(super) fn is_at_capacity(&self, budget: &Budget) -> bool {
        self.pages.load(Ordering::Relaxed) == self.pages_max || !budget.has_room_for_pages(PAGE_BYTES)
    }

    /// Makes room in the full page of `tag`: by forgetting what is idle if that is enough, else by splitting it.
    #[cold]
    pub(super) fn make_room(&self, tag: u64, now: Timestamp, budget: &Budget) -> PagePressure {
        let growing = lock(&self.growth_lock);
        let mut page = self.page(self.page_of(tag)).lock();
        if !page.is_full() {
            return PagePressure::Normal;
        }
        if page.may_hold_idle(now) {
            let held = page.take_all();
            let before = held.len();
            let live = held.into_iter().filter(|(_, state)| !state.is_idle_at(now));
            let kept = live.map(|(tag, state)| page.add(tag, state)).count();
            // A page that is full again at once would be relieved for every new key.
            if before - kept >= before.div_ceil(8) {
                return PagePressure::Normal;
            }
        }
        let deep_enough = 1 << page.depth() < self.directory_entries() || self.double_directory(budget);
        if deep_enough
            && self.pages.load(Ordering::Acquire) < self.pages_max
            && budget.try_take_for_pages(PAGE_BYTES)
        {
            self.split(&mut page, tag);
            return PagePressure::Normal;
        }
        drop(growing);
        if page.is_full() { PagePressure::Exhausted } else { PagePressure::Normal }
    }

    /// Moves the keys whose next address bit is set to a new page. `growing` is held.
    fn split<'a>(&'a self, page: &mut LockedPage<'a>, tag: u64) {
        let new_number = self.pages.load(Ordering::Acquire);
        let mut new_page = self.page(new_number).lock();
        let bit = 1 << page.depth();
        page.set_depth(page.depth() + 1);
        new_page.set_depth(page.depth());
        for (tag, state) in page.take_all() {
            let side = if address(tag) & bit == 0 { &mut *page } else { &mut new_page };
            side.add(tag, state);
        }
        let first = address(tag) & (bit - 1) | bit;
        for entry in (first..self.directory_entries()).step_by(2 * bit) {
            self.directory[entry].store(new_number, Ordering::Release);
        }
        self.pages.store(new_number + 1, Ordering::Release);
    }

    /// Looks at one more bit of every address. `growing` is held.
    fn double_directory(&self, budget: &Budget) -> bool {
        let entries = self.directory_entries();
        if 2 * entries > self.directory.len() || !budget.try_take_for_pages(entries * size_of::<u32>()) {
            return false;
        }
        for entry in 0..entries {
            let page = self.directory[entry].load(Ordering::Acquire);
            self.directory[entries + entry].store(page, Ordering::Release);
        }
        self.mask.store(2 * entries as u64 - 1, Ordering::Release);
        true
    }

    /// Entries of the directory in use.
    fn directory_entries(&self) -> usize {
        address(self.mask.load(Ordering::Acquire)) + 1
    }
}

/// The bits of a tag that choose its page, lowest first.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "only as many bits are used as a directory has")]
fn address(tag: u64) -> usize {
    tag as usize
}
