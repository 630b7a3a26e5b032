//! Counts of what a store on Redis has done.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::connection::{EventHook, ServersStats, StoreEvent};
use crate::StoreError;
use crate::sync::lock;

/// Counts of what a [`RedisStore`](super::RedisStore) has done. They only grow, unless a field says
/// otherwise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreStats {
    /// Plans, or parts of split plans, that were put into calls.
    pub plans: u64,
    /// Calls of the script.
    pub calls: u64,
    /// Pipelines of calls that got a reply.
    pub pipelines_answered: u64,
    /// Plans that shared a call with another plan of the same keys and limits.
    pub coalesced: u64,
    /// Denials from the deny cache, without a call.
    pub deny_cache_hits: u64,
    /// Keys in the deny cache now.
    pub deny_cache_entries: u64,
    /// Plans whose keys were in several slots or servers.
    pub splits: u64,
    /// Parts of split plans that were refunded because another part was denied or got no reply, and leases
    /// that were released because their caller was gone.
    pub split_refunds: u64,
    /// Refunds and releases, of those, that failed or have an unknown result. These charges stay until their
    /// windows end.
    pub split_refunds_lost: u64,
    /// Operations without a reply, by reason.
    pub failures: FailureCounts,
    /// Nodes that share the store, this one included, as of the last heartbeat.
    pub live_nodes: u32,
    /// The servers, and the connections to them.
    pub servers: ServersStats,
}

/// Operations without a reply, by [reason](StoreError).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureCounts {
    /// There was no reply in time.
    pub timed_out: u64,
    /// Not sent: the circuit breaker is open.
    pub away: u64,
    /// Not sent: too many operations wait for the store.
    pub overloaded: u64,
    /// Redis replied with an error.
    pub refused: u64,
    /// A key holds a value that is not a counter.
    pub unreadable: u64,
    /// Not sent: the tokio runtime of the store was dropped.
    pub runtime_gone: u64,
}

impl FailureCounts {
    /// Each count with its reason as metrics name it: see [`StoreError::as_str`].
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

    /// The sum of all counts.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// How many unreadable keys are reported at most. They are remembered, so that each is reported once.
const UNREADABLE_KEYS_MAX: usize = 64;

/// The counters behind [`StoreStats`].
#[derive(Default)]
pub(super) struct StoreCounters {
    hook: Option<EventHook>,
    unreadable_keys: Mutex<BTreeSet<Box<str>>>,
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

/// A number that only grows.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl StoreCounters {
    /// Counters that report unreadable keys.
    pub(super) fn new(hook: Option<EventHook>) -> Self {
        Self { hook, ..Self::default() }
    }

    /// Counts an operation without a reply.
    pub(super) fn count_failure(&self, failure: &StoreError) {
        let count = match failure {
            StoreError::TimedOut => &self.timed_out,
            StoreError::BreakerOpen | StoreError::Unreachable(_) => &self.away,
            StoreError::Overloaded => &self.overloaded,
            StoreError::Refused(_) => &self.refused,
            StoreError::Unreadable(key) => {
                self.report_unreadable(key);
                &self.unreadable
            }
            StoreError::RuntimeGone => &self.runtime_gone,
        };
        count.add(1);
    }

    #[cold]
    fn report_unreadable(&self, key: &str) {
        let mut reported = lock(&self.unreadable_keys);
        let is_new = reported.len() < UNREADABLE_KEYS_MAX && reported.insert(key.into());
        drop(reported);
        if let (true, Some(hook)) = (is_new, &self.hook) {
            hook.call(StoreEvent::UnreadableKey { key: key.into() });
        }
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
