//! The trace put through a limiter: real decisions at given instants, and the level between them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate::{Clock, Decision, Limiter, LimiterError, MemoryStore, Timestamp};

use super::trace::{self, END_NS, START_NS};

/// How far apart the level is looked at when nothing comes: less than half a pixel.
pub(super) const GRID_NS: u64 = 5_000_000;
pub(super) const KEY: &str = "pictured";

/// What came of every request, and how full the limit was all the while.
///
/// Plain data, and all that is ever drawn: whatever can fill it in can be pictured.
#[derive(Clone, Debug)]
pub struct Run {
    /// Each request, in the order they came.
    pub requests: Vec<Request>,
    /// The level from each instant on at which it changed.
    pub levels: Vec<Level>,
    /// The most units that can be in use.
    pub room: u64,
    /// Units that were not given back by those who held them; none where units are not held.
    pub lost: Vec<Lost>,
}

/// A unit that comes back only because its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// When it was taken, since the trace began.
    pub from_ns: u64,
    /// When it is free again.
    pub until_ns: u64,
}

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it came, since the trace began.
    pub at_ns: u64,
    /// What it got to hear.
    pub fate: Fate,
}

/// What a request gets to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Go on.
    Admitted,
    /// Go on after this long.
    Delayed {
        /// How long.
        by_ns: u64,
    },
    /// No.
    Denied,
}

/// Units in use from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Since the trace began.
    pub at_ns: u64,
    /// The room of the limit less what it would still admit.
    pub units: u64,
}

impl Run {
    /// Puts the trace through this limit.
    pub fn of(limit: &str) -> Result<Self, LimiterError> {
        let limiter = Limiter::builder().limit(limit).store(Arc::new(MemoryStore::unbounded())).build()?;
        let room = limiter.peek_at(KEY, 0, instant(0)).remaining;
        let mut run = Self::new(room);
        let mut arrivals = trace::arrivals().peekable();
        for grid_ns in grid() {
            run.look(&limiter, grid_ns);
            while let Some(at_ns) = arrivals.next_if(|at_ns| *at_ns < grid_ns + GRID_NS) {
                let fate = Fate::of(&limiter.check_at(KEY, 1, instant(at_ns)));
                run.requests.push(Request { at_ns, fate });
                run.look(&limiter, at_ns);
            }
        }
        Ok(run)
    }

    /// Nothing has happened yet.
    pub(super) fn new(room: u64) -> Self {
        Self { requests: Vec::new(), levels: Vec::new(), room, lost: Vec::new() }
    }

    /// When requests were admitted, in order.
    pub fn admitted_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter(|request| request.fate != Fate::Denied).map(|request| request.at_ns)
    }

    /// When they go on: at once, or after their delay.
    pub fn departures_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter_map(Request::leaves_ns)
    }

    /// The same as requests of which each comes when it goes on, for they are drawn alike.
    pub fn departures(&self) -> Vec<Request> {
        self.departures_ns().map(|at_ns| Request { at_ns, fate: Fate::Admitted }).collect()
    }

    /// The part of the level that was lost, from each instant on at which it changed.
    pub fn lost_levels(&self) -> Vec<Level> {
        let changes: BTreeSet<u64> =
            self.lost.iter().flat_map(|lost| [lost.from_ns, lost.until_ns]).collect();
        let units_at = |now_ns| {
            let is_lost = |lost: &&Lost| (lost.from_ns..lost.until_ns).contains(&now_ns);
            self.lost.iter().filter(is_lost).count() as u64
        };
        changes.into_iter().map(|at_ns| Level { at_ns, units: units_at(at_ns) }).collect()
    }

    /// Notes how much of a limit is in use.
    pub(super) fn look<C: Clock>(&mut self, limiter: &Limiter<C>, at_ns: u64) {
        let remaining = limiter.peek_at(KEY, 0, instant(at_ns)).remaining;
        self.note(at_ns, self.room.saturating_sub(remaining));
    }

    /// Notes the level if it is another than before.
    pub(super) fn note(&mut self, at_ns: u64, units: u64) {
        if self.levels.last().is_none_or(|last| last.units != units) {
            self.levels.push(Level { at_ns, units });
        }
    }
}

impl Request {
    fn leaves_ns(&self) -> Option<u64> {
        match self.fate {
            Fate::Admitted => Some(self.at_ns),
            Fate::Delayed { by_ns } => Some(self.at_ns.saturating_add(by_ns)),
            Fate::Denied => None,
        }
    }
}

impl Fate {
    pub(super) fn of(decision: &Decision) -> Self {
        match u64::try_from(decision.delay.get()).unwrap_or(u64::MAX) {
            _ if !decision.is_allowed() => Self::Denied,
            0 => Self::Admitted,
            by_ns => Self::Delayed { by_ns },
        }
    }
}

/// The instants at which the level is looked at even when nothing comes.
pub(super) fn grid() -> impl Iterator<Item = u64> {
    (0..=END_NS / GRID_NS).map(|number| number * GRID_NS)
}

/// An instant of the trace on the clock of a limiter.
pub(super) fn instant(at_ns: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + at_ns)
}
