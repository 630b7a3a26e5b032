//! The bytes that a store may use, shared by all its states.
//!
//! A sixteenth of the bytes is reserved for each kind of state, so that none crowds out the others: for pages here, and
//! for usage logs and leases in their [`MemoryShare`](super::shards::MemoryShare).

use crate::sync::{AtomicU64, Ordering};

/// The bytes reserved for a kind of state are all bytes divided by this.
const RESERVE_DIVISOR: u64 = 16;

/// Counts bytes in use against a maximum.
pub(super) struct Budget {
    /// Bytes that are not reserved for pages.
    shared_max: u64,
    shared_used: AtomicU64,
    /// Bytes reserved for pages.
    pages_max: u64,
    pages_used: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Self {
        let pages_max = Self::reserved_bytes(bytes_max);
        let (shared_used, pages_used) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { shared_max: bytes_max - pages_max, shared_used, pages_max, pages_used }
    }

    /// Bytes reserved for each kind of state in a store of `bytes_max`.
    pub(super) fn reserved_bytes(bytes_max: u64) -> u64 {
        bytes_max / RESERVE_DIVISOR
    }

    /// Takes `bytes` for pages and their directory, if they are available.
    pub(super) fn try_take_for_pages(&self, bytes: usize) -> bool {
        let add = |max| move |used: u64| used.checked_add(bytes as u64).filter(|used| *used <= max);
        let take =
            |used: &AtomicU64, max| used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add(max)).is_ok();
        take(&self.pages_used, self.pages_max) || take(&self.shared_used, self.shared_max)
    }

    /// Whether `bytes` are available for pages.
    pub(super) fn has_room_for_pages(&self, bytes: usize) -> bool {
        let used = self.pages_used.load(Ordering::Relaxed).saturating_add(bytes as u64);
        used <= self.pages_max || self.has_room(bytes as u64)
    }

    /// Whether `bytes` are available.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let used = self.shared_used.load(Ordering::Relaxed);
        used.checked_add(bytes).is_some_and(|used| used <= self.shared_max)
    }

    /// Takes `bytes` without a check, for what cannot be refused.
    pub(super) fn take_unchecked(&self, bytes: u64) {
        self.shared_used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases `bytes`.
    pub(super) fn release(&self, bytes: u64) {
        self.shared_used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most bytes that may be in use.
    pub(super) fn bytes_max(&self) -> u64 {
        self.shared_max + self.pages_max
    }

    /// Bytes in use, or reserved for usage logs and leases.
    pub(super) fn bytes_used(&self) -> u64 {
        self.shared_used.load(Ordering::Relaxed) + self.pages_used.load(Ordering::Relaxed)
    }

    /// Whether more bytes are in use than allowed.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.shared_used.load(Ordering::Relaxed) > self.shared_max
    }
}
