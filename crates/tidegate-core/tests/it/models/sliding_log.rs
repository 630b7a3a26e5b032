//! "Admitted iff the cost logged in (t-W, t], plus c, is <= L: an entry exactly W old is out. `min_interval` D:
//! and the last logged entry is at least D old."

use tidegate_core::algorithm::CountDenied;

use super::{Event, Model, signed, stamped, sum_of};

#[derive(Debug)]
pub struct SlidingLog {
    pub limit: u64,
    pub window: u64,
    pub count_denied: CountDenied,
    /// 0 means none.
    pub min_interval: u64,
}

/// The log, and the instant to decide by: never before the newest entry.
fn log_and_instant(past: &[Event], at: u128) -> (Vec<Event>, u128) {
    let log = stamped(past, |at| at);
    let instant = log.last().map_or(at, |newest| newest.at.max(at));
    (log, instant)
}

impl Model for SlidingLog {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        let (log, instant) = log_and_instant(past, request.at);
        let spaced = log.last().is_none_or(|newest| instant - newest.at >= u128::from(self.min_interval));
        spaced && self.has_room(past, request)
    }

    fn has_room(&self, past: &[Event], request: Event) -> bool {
        let (log, instant) = log_and_instant(past, request.at);
        let edge = signed(instant) - signed(self.window);
        let used = sum_of(log.into_iter().filter(|entry| signed(entry.at) > edge));
        used + u128::from(request.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn count_denied(&self) -> CountDenied {
        self.count_denied
    }
}
