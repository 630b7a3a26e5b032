//! The table of packed states: extendible hashing over [pages](super::page).
//!
//! From Fagin, Nievergelt, Pippenger and Strong (1979). A directory maps the low bits of a tag to a page. A full page
//! first drops its idle states. If that is not enough, it is split in two by one more bit. If that page is the only one
//! on its directory entry, the directory doubles: it is copied behind itself. So the table grows by one 4 KiB page at a
//! time, never rehashes, never moves a page and never frees one. Readers need neither locks nor epochs:
//!
//! 1. Look up the page and take its version.
//! 2. Look up the page again. If it is the same, it was not split before the version was taken.
//! 3. Read, and check that the version is unchanged.
//!
//! Address space for all pages that `memory_max` allows is reserved at the start. The operating system provides memory
//! when a page is first used.

use tidegate_core::Timestamp;

use super::budget::Budget;
use super::page::{LockedPage, PAGE_BYTES, Page, PageEntry, PageWords};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock, zeroed};

/// The bits that choose one of the first pages. There are enough pages that a few hot keys on many cores rarely contend for
/// the lock of one, and enough bits for the [owners](super::owners).
pub(super) const DEPTH_MIN: u32 = if cfg!(loom) { 0 } else { 6 };
/// How many bits more the directory may have than evenly filled pages need. Hashes are random, so the last of these
/// bits are practically never used. If they are, pages that cannot be split evict states instead.
const DEPTH_SLACK: u32 = 4;
/// Eight TiB, and the largest number that can be doubled in 32 bits.
const PAGES_MAX: u32 = 1 << 31;

/// A fixed reservation of pages, and the directory that finds them.
pub(super) struct Table {
    reserved: Box<[PageWords]>,
    directory: Box<[AtomicU32]>,
    /// The bits of a tag that the directory uses.
    mask: AtomicU64,
    /// Pages in use. Changed only while `growth_lock` is held.
    pages: AtomicU32,
    pages_max: u32,
    growth_lock: Mutex<()>,
}

impl Table {
    /// A table that may grow to `bytes_max`, or to as much as can be reserved.
    pub(super) fn new(bytes_max: usize, budget: &Budget) -> Self {
        let pages_min = 1_u32 << DEPTH_MIN;
        let pages_max = u32::try_from(bytes_max / PAGE_BYTES).unwrap_or(u32::MAX);
        let mut pages_max = pages_max.clamp(pages_min, PAGES_MAX);
        let (reserved, directory) = loop {
            let depth_max = pages_max.next_power_of_two().trailing_zeros() + DEPTH_SLACK;
            let parts = (zeroed(pages_max as usize), zeroed(1 << depth_max));
            if let (Some(reserved), Some(directory)) = parts {
                break (reserved, directory);
            }
            assert!(pages_max > pages_min, "no memory for {pages_min} pages of {PAGE_BYTES} bytes");
            pages_max = (pages_max / 2).max(pages_min);
        };
        let table = Self {
            reserved,
            directory,
            mask: AtomicU64::new(u64::from(pages_min) - 1),
            pages: AtomicU32::new(pages_min),
            pages_max,
            growth_lock: Mutex::new(()),
        };
        // The initial pages are required, so take them even from a store that is too small.
        if !budget.try_take_for_pages(pages_min as usize * (PAGE_BYTES + size_of::<u32>())) {
            budget.take_unchecked(u64::from(pages_min) * (PAGE_BYTES + size_of::<u32>()) as u64);
        }
        for page in 0..pages_min {
            table.directory[page as usize].store(page, Ordering::Release);
            let mut locked = table.page(page).lock();
            locked.set_depth(DEPTH_MIN);
            locked.set_low_bits(page.into());
        }
        table
    }

    /// The current page of `tag`.
    #[inline(always)]
    pub(super) fn page_of(&self, tag: u64) -> Page<'_> {
        self.page(self.page_number(tag))
    }

    /// The number of the current page of `tag`.
    #[inline(always)]
    pub(super) fn page_number(&self, tag: u64) -> u32 {
        #[allow(clippy::cast_possible_truncation, reason = "the directory is that long")]
        let entry = (tag & self.mask.load(Ordering::Acquire)) as usize;
        self.directory[entry].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(super) fn page(&self, page: u32) -> Page<'_> {
        Page::new(&self.reserved[page as usize])
    }

    /// How many pages are in use.
    pub(super) fn pages(&self) -> u32 {
        self.pages.load(Ordering::Acquire)
    }

    /// Passes the keys and states of every page to `visit`, until it fails.
    pub(super) fn walk<E>(&self, mut visit: impl FnMut(&[PageEntry]) -> Result<(), E>) -> Result<(), E> {
        let mut entries = Vec::new();
        let mut number = 0;
        while number < self.pages.load(Ordering::Acquire) {
            self.page(number).copy_to(&mut entries);
            visit(&entries)?;
            number += 1;
        }
        Ok(())
    }

    /// Whether no page can be added.
    pub(super) fn is_at_capacity(&self, budget: &Budget) -> bool {
        self.pages.load(Ordering::Relaxed) == self.pages_max || !budget.has_room_for_pages(PAGE_BYTES)
    }

    /// Makes room in the full page of `tag`: drops idle states if that is enough, else splits the page, and if there is
    /// no memory for that, evicts live states. Returns how many were evicted.
    #[cold]
    pub(super) fn make_room(&self, tag: u64, now: Timestamp, budget: &Budget) -> u64 {
        // Threads that evict need not wait for each other: only the locked page changes.
        let growing = (!self.is_at_capacity(budget)).then(|| lock(&self.growth_lock));
        let number = self.page_number(tag);
        let mut page = self.page(number).lock();
        // A page that was split, or that another thread made room in, is tried again.
        if self.page_number(tag) != number || !page.is_full() || page.drop_idle(now) {
            return 0;
        }
        if growing.is_some() && self.try_split(&mut page, tag, budget) {
            return 0;
        }
        drop(growing);
        if page.is_full() { page.evict() } else { 0 }
    }

    /// Splits a page if there is memory for another one. `growth_lock` is held.
    fn try_split<'a>(&'a self, page: &mut LockedPage<'a>, tag: u64, budget: &Budget) -> bool {
        let deep_enough = 1 << page.depth() < self.directory_entries() || self.double_directory(budget);
        let can_split = deep_enough
            && self.pages.load(Ordering::Acquire) < self.pages_max
            && budget.try_take_for_pages(PAGE_BYTES);
        if can_split {
            self.split(page, tag);
        }
        can_split
    }

    /// Moves the keys whose next bit is set to a new page. `growth_lock` is held.
    fn split<'a>(&'a self, page: &mut LockedPage<'a>, tag: u64) {
        let new_number = self.pages.load(Ordering::Acquire);
        let mut new_page = self.page(new_number).lock();
        let bit = 1 << page.depth();
        page.set_depth(page.depth() + 1);
        new_page.set_depth(page.depth());
        new_page.set_low_bits(page.low_bits());
        // The bits below are the same in all tags of the page, and need not be stored with them.
        for (stored_tag, state) in page.take_all() {
            let side = if address(stored_tag) & bit == 0 { &mut *page } else { &mut new_page };
            side.add(stored_tag, state);
        }
        let first = address(tag) & (bit - 1) | bit;
        for entry in (first..self.directory_entries()).step_by(2 * bit) {
            self.directory[entry].store(new_number, Ordering::Release);
        }
        self.pages.store(new_number + 1, Ordering::Release);
    }

    /// Doubles the directory, to use one more bit of every tag. `growth_lock` is held.
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

    /// Directory entries in use.
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
