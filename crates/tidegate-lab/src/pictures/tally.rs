//! Requests in figures.

use super::run::{Fate, Request};
use super::trace::WINDOW_NS;

/// How many requests had which fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Admitted, to go on at once.
    pub at_once: u64,
    /// Admitted, to go on later.
    pub delayed: u64,
    /// Denied.
    pub denied: u64,
}

/// The most requests in any window, which begins with the first of them: the honest figure of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// How many.
    pub requests: u64,
    /// The first of them.
    pub first_ns: u64,
    /// The last of them.
    pub last_ns: u64,
}

impl Tally {
    /// Of these requests.
    pub fn of(requests: &[Request]) -> Self {
        requests.iter().fold(Self::default(), |tally, request| tally.and(request.fate))
    }

    /// All that were admitted.
    pub fn admitted(&self) -> u64 {
        self.at_once + self.delayed
    }

    /// All that came.
    pub fn requests(&self) -> u64 {
        self.admitted() + self.denied
    }

    fn and(mut self, fate: Fate) -> Self {
        match fate {
            Fate::Admitted => self.at_once += 1,
            Fate::Delayed { .. } => self.delayed += 1,
            Fate::Denied => self.denied += 1,
        }
        self
    }
}

impl Worst {
    /// Of these instants, which are in order. Of windows with equally many, the one that is crowded into the
    /// shortest time, then the first.
    pub fn of(instants_ns: impl Iterator<Item = u64>) -> Self {
        let instants: Vec<u64> = instants_ns.collect();
        let mut worst = Self::default();
        for (number, &first_ns) in instants.iter().enumerate() {
            // The window is half open: what comes exactly a window later is in the next one.
            let inside = instants[number..].iter().take_while(|&&at_ns| at_ns - first_ns < WINDOW_NS);
            let (requests, last_ns) = inside.fold((0, first_ns), |(count, _), &at_ns| (count + 1, at_ns));
            let found = Self { requests, first_ns, last_ns };
            if (found.requests, worst.span_ns()) > (worst.requests, found.span_ns()) {
                worst = found;
            }
        }
        worst
    }

    /// From the first to the last of them.
    pub fn span_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }
}
