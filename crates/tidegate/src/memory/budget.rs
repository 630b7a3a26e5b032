//! The bytes that a store may use, shared by all it keeps.

use crate::sync::{AtomicU64, Ordering};

/// Counts bytes in use against a maximum.
pub(super) struct Budget {
    bytes_max: u64,
    bytes_used: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes_used: AtomicU64::new(0) }
    }

    /// Takes `bytes` if they are left.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let add = |used: u64| used.checked_add(bytes as u64).filter(|used| *used <= self.bytes_max);
        self.bytes_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Whether `bytes` are left.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes as u64).is_some_and(|used| used <= self.bytes_max)
    }

    /// Takes `bytes` that cannot be done without.
    pub(super) fn take_always(&self, bytes: usize) {
        self.bytes_used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Gives `bytes` back.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes_used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that may be in use.
    pub(super) fn max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.bytes_used.load(Ordering::Relaxed)
    }

    /// Whether more is in use than there should be.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.used() > self.bytes_max
    }
}
