//! What a store on Redis has done so far, as numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::servers::ServersStats;
use crate::StoreError;

/// What a [`RedisStore`](super::RedisStore) has done so far. All numbers but those that say otherwise only grow.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStats {
    /// Plans, or parts of plans that were split, that were put into calls.
    pub plans: u64,
    /// Calls of the script that they were put into.
    pub calls: u64,
    /// Rounds, pipelines of calls, that brought an answer.
    pub pipelines_answered: u64,
    /// Orders that went along with another one in the same call that has the same keys and limits.
    pub coalesced: u64,
    /// Denials from memory.
    pub deny_cache_hits: u64,
    /// Keys of which it is known that they were denied a moment ago: as it is now.
    pub deny_cache_entries: u64,
    /// Plans whose keys were in several slots or servers.
    pub splits: u64,
    /// Parts of split plans that were given back because another part was denied or not answered, and leases that nobody
    /// waited for any more.
    pub split_refunds: u64,
    /// Of those, the ones that could not be given back, or of which it is not known: they stay charged until their
    /// windows are over.
    pub split_refunds_lost: u64,
    /// Questions that were not answered, by why.
    pub failures: FailureCounts,
    /// Processes that share the store, this one included, as of the last heartbeat.
    pub live_nodes: u32,
    /// The servers, and the connections to them.
    pub servers: ServersStats,
}

/// Questions that were not answered, by [why](StoreFailure).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureCounts {
    /// Not in time.
    pub timed_out: u64,
    /// Not asked: it has not answered for a while.
    pub away: u64,
    /// Not asked: too many others waited.
    pub overloaded: u64,
    /// It said that it cannot.
    pub refused: u64,
    /// A key holds what is no counter.
    pub unreadable: u64,
    /// Not asked: the tokio runtime that the store runs on was dropped.
    pub runtime_gone: u64,
}

impl FailureCounts {
    /// Each with the reason that metrics know it by, as [`StoreFailure::as_str`] has it.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        [
            (StoreError::TimedOut.as_str(), self.timed_out),
            (StoreError::BreakerOpen.as_str(), self.away),
            (StoreError::Overloaded.as_str(), self.overloaded),
            ("refused", self.refused),
            ("unreadable", self.unreadable),
            (StoreError::RuntimeGone.as_str(), self.runtime_gone),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// The numbers while they are counted.
#[derive(Default)]
pub(super) struct StoreCounters {
    pub plans: Count,
    pub calls: Count,
    pub pipelines_answered: Count,
    pub coalesced: Count,
    pub deny_cache_hits: Count,
    pub splits: Count,
    pub split_refunds: Count,
    pub split_refunds_lost: Count,
    timed_out: Count,
    away: Count,
    overloaded: Count,
    refused: Count,
    unreadable: Count,
    runtime_gone: Count,
}

/// A number that grows.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl StoreCounters {
    /// A question was not answered.
    pub(super) fn count_failure(&self, failure: &StoreError) {
        let count = match failure {
            StoreError::TimedOut => &self.timed_out,
            StoreError::BreakerOpen => &self.away,
            StoreError::Overloaded => &self.overloaded,
            StoreError::Refused(_) => &self.refused,
            StoreError::Unreadable(_) => &self.unreadable,
            StoreError::RuntimeGone => &self.runtime_gone,
        };
        count.add(1);
    }

    pub(super) fn failure_counts(&self) -> FailureCounts {
        FailureCounts {
            timed_out: self.timed_out.get(),
            away: self.away.get(),
            overloaded: self.overloaded.get(),
            refused: self.refused.get(),
            unreadable: self.unreadable.get(),
            runtime_gone: self.runtime_gone.get(),
        }
    }
}

impl Count {
    pub(super) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
