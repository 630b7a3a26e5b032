//! Replays a whole trace and collects totals, busiest keys, overshoot and the comparison with a sliding log.

use std::cmp::Ordering;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tidegate::{Limit, OutcomeKind};

use super::TraceLimiter;
use super::error::TraceError;
use super::input::TraceInput;
use super::line::TraceRequest;
use super::overshoot::{Admission, Overshoot, Window};

/// The summary of a trace.
pub struct Summary {
    pub totals: Totals,
    /// Whether any request has a cost other than 1.
    pub costs: CostMix,
    pub time: TimeStats,
    /// One per limit.
    pub overshoots: Vec<Overshoot>,
    pub log_comparison: LogComparison,
    keys: IndexMap<Box<[u8]>, KeyStats, RandomState>,
}

/// Totals of requests and cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub requests: u64,
    pub allowed: u64,
    pub cost: u128,
    pub cost_allowed: u128,
}

/// Whether the cost differs from the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostMix {
    #[default]
    AllOne,
    Mixed,
}

/// The times of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeStats {
    /// The earliest and the latest, or `None` without requests.
    pub range_ns: Option<(u64, u64)>,
    last_ns: u64,
    pub backward_steps: u64,
}

/// Requests that an exact sliding log decides differently.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogComparison {
    pub allowed_only_here: u64,
    pub allowed_only_by_log: u64,
}

#[derive(Default)]
struct KeyStats {
    requests: u64,
    allowed: u64,
    /// One per limit.
    windows: Box<[Window]>,
}

/// One of the busiest keys.
#[derive(Clone, Copy, Debug)]
pub struct BusyKey<'a> {
    pub key: &'a [u8],
    pub requests: u64,
    pub allowed: u64,
}

impl BusyKey<'_> {
    fn cmp_busiest_first(&self, other: &BusyKey<'_>) -> Ordering {
        other.requests.cmp(&self.requests).then_with(|| self.key.cmp(other.key))
    }
}

impl Summary {
    /// Replays the trace with `limiter` and, for comparison, with `log`, an exact sliding log of the same limits.
    pub fn replay(
        requests: &mut TraceInput,
        limits: &[Limit],
        limiter: &TraceLimiter,
        log: &TraceLimiter,
    ) -> Result<Self, TraceError> {
        let mut summary = Self {
            totals: Totals::default(),
            costs: CostMix::default(),
            time: TimeStats::default(),
            overshoots: limits.iter().map(|limit| Overshoot::new(limit.rate())).collect(),
            log_comparison: LogComparison::default(),
            keys: IndexMap::with_hasher(RandomState::default()),
        };
        while let Some(request) = requests.next_request()? {
            let TraceRequest { at, key, cost } = request;
            let here = limiter.check_at(key, cost, at).kind;
            let by_log = log.check_at(key, cost, at).kind;
            summary.count(&request, here);
            summary.log_comparison.count(here, by_log);
        }
        Ok(summary)
    }

    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// The key at this position, in order of first use.
    pub fn key(&self, index: usize) -> &[u8] {
        self.keys.get_index(index).map_or(&[], |(key, _)| key)
    }

    /// The `count` keys with the most requests, busiest first. Ties are in byte order.
    pub fn busiest(&self, count: usize) -> Vec<BusyKey<'_>> {
        let keys = self.keys.iter();
        let mut keys: Vec<BusyKey<'_>> = keys
            .map(|(key, stats)| BusyKey { key, requests: stats.requests, allowed: stats.allowed })
            .collect();
        if count < keys.len() {
            // There may be millions of keys, so sort only the ones to return.
            keys.select_nth_unstable_by(count, BusyKey::cmp_busiest_first);
            keys.truncate(count);
        }
        keys.sort_unstable_by(BusyKey::cmp_busiest_first);
        keys
    }

    fn count(&mut self, request: &TraceRequest<'_>, kind: OutcomeKind) {
        self.time.count(request.at.as_nanos());
        self.totals.count(request.cost, kind);
        if request.cost != 1 {
            self.costs = CostMix::Mixed;
        }
        let index = self.index_of(request.key);
        let key = &mut self.keys[index];
        key.requests += 1;
        if kind == OutcomeKind::Allowed {
            key.allowed += 1;
            for (overshoot, window) in self.overshoots.iter_mut().zip(&mut key.windows) {
                overshoot.record(window, index, Admission { at: request.at, cost: request.cost });
            }
        }
    }

    fn index_of(&mut self, key: &[u8]) -> usize {
        if let Some(index) = self.keys.get_index_of(key) {
            return index;
        }
        let windows = self.overshoots.iter().map(|_| Window::default()).collect();
        self.keys.insert_full(key.into(), KeyStats { windows, ..KeyStats::default() }).0
    }
}

impl Totals {
    pub fn denied(&self) -> u64 {
        self.requests - self.allowed
    }

    pub fn cost_denied(&self) -> u128 {
        self.cost - self.cost_allowed
    }

    fn count(&mut self, cost: u64, kind: OutcomeKind) {
        self.requests += 1;
        self.cost += u128::from(cost);
        if kind == OutcomeKind::Allowed {
            self.allowed += 1;
            self.cost_allowed += u128::from(cost);
        }
    }
}

impl TimeStats {
    fn count(&mut self, at_ns: u64) {
        self.range_ns = match self.range_ns {
            None => Some((at_ns, at_ns)),
            Some((earliest, latest)) => {
                self.backward_steps += u64::from(at_ns < self.last_ns);
                Some((earliest.min(at_ns), latest.max(at_ns)))
            }
        };
        self.last_ns = at_ns;
    }
}

impl LogComparison {
    pub fn differences(&self) -> u64 {
        self.allowed_only_here + self.allowed_only_by_log
    }

    fn count(&mut self, here: OutcomeKind, by_log: OutcomeKind) {
        match (here, by_log) {
            (OutcomeKind::Allowed, OutcomeKind::Denied) => self.allowed_only_here += 1,
            (OutcomeKind::Denied, OutcomeKind::Allowed) => self.allowed_only_by_log += 1,
            (OutcomeKind::Allowed, OutcomeKind::Allowed) | (OutcomeKind::Denied, OutcomeKind::Denied) => {}
        }
    }
}
