//! The trace put through a limiter: real decisions at given instants, and the level between them.

use std::sync::Arc;

use tidegate::{Decision, Limiter, LimiterError, MemoryStore, Timestamp};

use super::trace::{self, END_NS, START_NS};

/// How far apart the level is looked at when nothing comes: less than half a pixel.
const GRID_NS: u64 = 5_000_000;
const KEY: &str = "pictured";

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
        let mut run = Self { requests: Vec::new(), levels: Vec::new(), room };
        let mut arrivals = trace::arrivals().peekable();
        for grid_ns in (0..=END_NS).step_by(usize::try_from(GRID_NS).unwrap_or(usize::MAX)) {
            run.look(&limiter, grid_ns);
            while let Some(at_ns) = arrivals.next_if(|at_ns| *at_ns < grid_ns + GRID_NS) {
                let fate = Fate::of(&limiter.check_at(KEY, 1, instant(at_ns)));
                run.requests.push(Request { at_ns, fate });
                run.look(&limiter, at_ns);
            }
        }
        Ok(run)
    }

    /// When requests were admitted, in order.
    pub fn admitted_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter(|request| request.fate != Fate::Denied).map(|request| request.at_ns)
    }

    /// When they go on: at once, or after their delay.
    pub fn departures_ns(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter_map(Request::leaves_ns)
    }

    /// Notes the level if it is another than before.
    fn look(&mut self, limiter: &Limiter, at_ns: u64) {
        let remaining = limiter.peek_at(KEY, 0, instant(at_ns)).remaining;
        let units = self.room.saturating_sub(remaining);
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
    fn of(decision: &Decision) -> Self {
        match u64::try_from(decision.delay.get()).unwrap_or(u64::MAX) {
            _ if !decision.is_allowed() => Self::Denied,
            0 => Self::Admitted,
            by_ns => Self::Delayed { by_ns },
        }
    }
}

fn instant(at_ns: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + at_ns)
}
