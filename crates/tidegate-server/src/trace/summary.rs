//! What a whole trace came to.

use std::cmp::Ordering;

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tidegate::{Limit, Verdict};

use super::error::TraceError;
use super::input::Input;
use super::line::Request;
use super::overshoot::{Admission, Overshoot, Window};
use super::rule::Rule;

/// What a whole trace came to.
pub struct Summary {
    pub tally: Tally,
    /// Whether any request cost something other than one.
    pub costs: Costs,
    pub time: Time,
    /// One for each limit.
    pub overshoots: Vec<Overshoot>,
    pub against_log: AgainstLog,
    keys: IndexMap<Box<[u8]>, Key, RandomState>,
}

/// Requests and cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub requests: u64,
    pub allowed: u64,
    pub cost: u128,
    pub cost_allowed: u128,
}

/// Whether cost says more than the number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Costs {
    #[default]
    AllOne,
    Mixed,
}

/// The times of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Time {
    /// The earliest and the latest; none if there are no requests.
    pub range_ns: Option<(u64, u64)>,
    last_ns: u64,
    pub steps_back: u64,
}

/// Requests that the exact sliding log decided otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgainstLog {
    pub admitted_only_here: u64,
    pub admitted_only_by_log: u64,
}

#[derive(Default)]
struct Key {
    requests: u64,
    allowed: u64,
    /// One for each limit.
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
    fn busier(&self, other: &BusyKey<'_>) -> Ordering {
        other.requests.cmp(&self.requests).then_with(|| self.key.cmp(other.key))
    }
}

impl Summary {
    /// Replays the trace under the rule, and beside it under `log`, its exact sliding log.
    pub fn of(requests: &mut Input, limits: &[Limit], rule: &Rule, log: &Rule) -> Result<Self, TraceError> {
        let mut summary = Self {
            tally: Tally::default(),
            costs: Costs::default(),
            time: Time::default(),
            overshoots: limits.iter().map(|limit| Overshoot::new(limit.rate())).collect(),
            against_log: AgainstLog::default(),
            keys: IndexMap::with_hasher(RandomState::default()),
        };
        while let Some(request) = requests.next()? {
            let Request { at, key, cost } = request;
            let here = rule.check_at(key, cost, at).verdict;
            let by_log = log.check_at(key, cost, at).verdict;
            summary.count(&request, here);
            summary.against_log.count(here, by_log);
        }
        Ok(summary)
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The key that came `index`-th.
    pub fn key(&self, index: usize) -> &[u8] {
        self.keys.get_index(index).map_or(&[], |(key, _)| key)
    }

    /// The `count` keys with the most requests, busiest first, equally busy ones in the order of their bytes.
    pub fn busiest(&self, count: usize) -> Vec<BusyKey<'_>> {
        let keys = self.keys.iter();
        let mut keys: Vec<BusyKey<'_>> =
            keys.map(|(key, seen)| BusyKey { key, requests: seen.requests, allowed: seen.allowed }).collect();
        if count < keys.len() {
            // There may be millions of them, so only the few are sorted.
            keys.select_nth_unstable_by(count, BusyKey::busier);
            keys.truncate(count);
        }
        keys.sort_unstable_by(BusyKey::busier);
        keys
    }

    fn count(&mut self, request: &Request<'_>, verdict: Verdict) {
        self.time.count(request.at.as_nanos());
        self.tally.count(request.cost, verdict);
        if request.cost != 1 {
            self.costs = Costs::Mixed;
        }
        let index = self.index_of(request.key);
        let key = &mut self.keys[index];
        key.requests += 1;
        if verdict == Verdict::Allowed {
            key.allowed += 1;
            for (overshoot, window) in self.overshoots.iter_mut().zip(&mut key.windows) {
                overshoot.admit(window, index, Admission { at: request.at, cost: request.cost });
            }
        }
    }

    fn index_of(&mut self, key: &[u8]) -> usize {
        if let Some(index) = self.keys.get_index_of(key) {
            return index;
        }
        let windows = self.overshoots.iter().map(|_| Window::default()).collect();
        self.keys.insert_full(key.into(), Key { windows, ..Key::default() }).0
    }
}

impl Tally {
    pub fn denied(&self) -> u64 {
        self.requests - self.allowed
    }

    pub fn cost_denied(&self) -> u128 {
        self.cost - self.cost_allowed
    }

    fn count(&mut self, cost: u64, verdict: Verdict) {
        self.requests += 1;
        self.cost += u128::from(cost);
        if verdict == Verdict::Allowed {
            self.allowed += 1;
            self.cost_allowed += u128::from(cost);
        }
    }
}

impl Time {
    fn count(&mut self, at_ns: u64) {
        self.range_ns = match self.range_ns {
            None => Some((at_ns, at_ns)),
            Some((earliest, latest)) => {
                self.steps_back += u64::from(at_ns < self.last_ns);
                Some((earliest.min(at_ns), latest.max(at_ns)))
            }
        };
        self.last_ns = at_ns;
    }
}

impl AgainstLog {
    pub fn different(&self) -> u64 {
        self.admitted_only_here + self.admitted_only_by_log
    }

    fn count(&mut self, here: Verdict, by_log: Verdict) {
        match (here, by_log) {
            (Verdict::Allowed, Verdict::Denied) => self.admitted_only_here += 1,
            (Verdict::Denied, Verdict::Allowed) => self.admitted_only_by_log += 1,
            (Verdict::Allowed, Verdict::Allowed) | (Verdict::Denied, Verdict::Denied) => {}
        }
    }
}
