//! Counts of what a store on etcd has done.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;

/// Counts of what a store on etcd has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdStats {
    /// Operations: acquisitions, renewals, releases, peeks, resets.
    pub operations: u64,
    /// Requests that were sent to members.
    pub calls: u64,
    /// Requests that a member did not answer, or could not. They were sent to the next member if there was time.
    pub calls_failed: u64,
    /// Acquisitions that were decided again, because another lease of the key was granted in between.
    pub conflicts: u64,
    /// Leases that were given back because their caller had given up, or their effect was unknown.
    pub leases_abandoned: u64,
    /// Operations that failed, by reason: the name of the error, and how many.
    pub failures: [(&'static str, u64); REASONS.len()],
}

/// The errors of this store, by their name.
const REASONS: [&str; 6] =
    ["timed_out", "overloaded", "unreachable", "refused", "unreadable", "runtime_gone"];

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub operations: Count,
    pub calls: Count,
    pub calls_failed: Count,
    pub conflicts: Count,
    pub leases_abandoned: Count,
    failures: [Count; REASONS.len()],
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub fn count_failure(&self, error: &StoreError) {
        let reason = REASONS.iter().position(|reason| *reason == error.as_str());
        if let Some(count) = reason.and_then(|index| self.failures.get(index)) {
            count.add_one();
        }
    }

    pub fn stats(&self) -> EtcdStats {
        let mut failures = REASONS.map(|reason| (reason, 0));
        for ((_, count), counted) in failures.iter_mut().zip(&self.failures) {
            *count = counted.get();
        }
        EtcdStats {
            operations: self.operations.get(),
            calls: self.calls.get(),
            calls_failed: self.calls_failed.get(),
            conflicts: self.conflicts.get(),
            leases_abandoned: self.leases_abandoned.get(),
            failures,
        }
    }
}
