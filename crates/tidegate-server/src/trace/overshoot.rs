//! The worst overshoot: by how much the fullest window of any key exceeds its limit.
//!
//! For a limit of L per W, this is the largest admitted cost in a half-open window (t - W, t], over all t and all
//! keys. Only windows that end at an admitted request need a check: any other window holds no more than the one
//! that ends at its last request. So one pass over the requests is enough, and for each key only the last W is kept.
//!
//! For calendar windows, W is nominal: 24 hours, 7 days or 30 days.
//!
//! If timestamps go backwards, a request counts at the latest time at which its key was admitted, as in the algorithms.

use std::collections::VecDeque;

use tidegate::{Rate, Timestamp};

/// The admitted requests of one key in the window that ends at the latest of them.
#[derive(Debug, Default)]
pub struct Window {
    /// One entry per instant, oldest first.
    admitted: VecDeque<WindowEntry>,
    total: u128,
}

#[derive(Clone, Copy, Debug)]
struct WindowEntry {
    at_ns: u64,
    cost: u128,
}

/// The fullest window of a limit so far.
#[derive(Debug)]
pub struct Overshoot {
    rate: Rate,
    fullest: Option<FullestWindow>,
}

/// A window of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullestWindow {
    /// The index of the key.
    pub key: usize,
    /// The last instant of the window.
    pub end: Timestamp,
    /// The cost admitted in the window.
    pub admitted: u128,
}

impl Overshoot {
    pub fn new(rate: Rate) -> Self {
        Self { rate, fullest: None }
    }

    /// The limit's L per W.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Records an admitted request in the window of its key.
    pub fn record(&mut self, window: &mut Window, key: usize, request: Admission) {
        let (end, admitted) = window.add(request, self.rate.window_ns());
        if admitted > self.fullest.map_or(0, |fullest| fullest.admitted) {
            self.fullest = Some(FullestWindow { key, end, admitted });
        }
    }

    /// The fullest window and its excess over the limit, or `None` if no window exceeds it. The first one wins a tie.
    pub fn worst(&self) -> Option<(FullestWindow, u128)> {
        let fullest = self.fullest?;
        let over = fullest.admitted.checked_sub(u128::from(self.rate.limit()))?;
        (over > 0).then_some((fullest, over))
    }
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    pub at: Timestamp,
    pub cost: u64,
}

impl Window {
    /// Adds a request. Returns the end of the window and the cost in it.
    fn add(&mut self, Admission { at, cost }: Admission, window_ns: u64) -> (Timestamp, u128) {
        if cost == 0 {
            // It uses nothing, so it does not move the window.
            return (at, 0);
        }
        let cost = u128::from(cost);
        self.total += cost;
        let end_ns = match self.admitted.back_mut() {
            Some(newest) if newest.at_ns >= at.as_nanos() => {
                newest.cost += cost;
                newest.at_ns
            }
            _ => {
                self.admitted.push_back(WindowEntry { at_ns: at.as_nanos(), cost });
                at.as_nanos()
            }
        };
        while let Some(oldest) = self.admitted.front()
            && end_ns - oldest.at_ns >= window_ns
        {
            self.total -= oldest.cost;
            self.admitted.pop_front();
        }
        (Timestamp::from_nanos(end_ns), self.total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate::Limit;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Event {
        key: usize,
        at_ns: u64,
        cost: u64,
    }

    /// 5 per millisecond, the shortest possible window.
    fn rate() -> Rate {
        "5 per 1ms".parse::<Limit>().unwrap().rate()
    }

    fn replay(events: &[Event]) -> Overshoot {
        let mut overshoot = Overshoot::new(rate());
        let mut windows: Vec<Window> = (0..3).map(|_| Window::default()).collect();
        for &Event { key, at_ns, cost } in events {
            let at = Timestamp::from_nanos(at_ns);
            overshoot.record(&mut windows[key], key, Admission { at, cost });
        }
        overshoot
    }

    /// The events at the times at which they count: never before an earlier event of the same key.
    fn effective_times(events: &[Event]) -> Vec<Event> {
        let counts_at = |(index, event): (usize, &Event)| {
            let until_now = events[..=index].iter().filter(|e| e.key == event.key && e.cost > 0);
            let newest = until_now.map(|e| e.at_ns).max();
            Event { at_ns: newest.unwrap_or(event.at_ns), ..*event }
        };
        events.iter().enumerate().map(counts_at).collect()
    }

    /// The cost admitted for a key in (end - W, end], computed from scratch.
    fn recount(events: &[Event], key: usize, end_ns: u64) -> u128 {
        let inside = |e: &&Event| e.key == key && e.at_ns <= end_ns && end_ns - e.at_ns < rate().window_ns();
        events.iter().filter(inside).map(|e| u128::from(e.cost)).sum()
    }

    /// Times on a grid of a quarter of the window, give or take one nanosecond, to hit the edges often.
    fn event() -> impl Strategy<Value = Event> {
        let at_ns = (4u64..40, 0u64..3).prop_map(|(quarter, off)| quarter * 250_000 + off - 1);
        (0usize..3, at_ns, 0u64..4).prop_map(|(key, at_ns, cost)| Event { key, at_ns, cost })
    }

    proptest! {
        #![proptest_config(tidegate_testing::proptest_config(64))]
        #[test]
        fn matches_a_brute_force_count(mut events in prop::collection::vec(event(), 0..60), sorted: bool) {
            if sorted {
                events.sort_by_key(|event| event.at_ns);
            }
            let effective = effective_times(&events);
            let max = effective.iter().map(|e| recount(&effective, e.key, e.at_ns)).max().unwrap_or(0);
            let overshoot = replay(&events);
            prop_assert_eq!(overshoot.fullest.map_or(0, |fullest| fullest.admitted), max);
            if let Some(FullestWindow { key, end, admitted }) = overshoot.fullest {
                prop_assert_eq!(recount(&effective, key, end.as_nanos()), admitted);
            }
            let over = overshoot.worst().map_or(0, |(_, over)| over);
            prop_assert_eq!(over, max.saturating_sub(u128::from(rate().limit())));
        }
    }

    #[test]
    fn a_request_exactly_one_window_old_is_out() {
        let at = |at_ns| Event { key: 0, at_ns, cost: 4 };
        assert!(replay(&[at(0), at(1_000_000)]).worst().is_none());
        let (fullest, over) = replay(&[at(0), at(999_999)]).worst().unwrap();
        assert_eq!((fullest.end.as_nanos(), fullest.admitted, over), (999_999, 8, 3));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let at = |at_ns| Event { key: 0, at_ns, cost: u64::MAX };
        let (fullest, _) = replay(&[at(u64::MAX), at(u64::MAX), at(0)]).worst().unwrap();
        assert_eq!(fullest.admitted, 3 * u128::from(u64::MAX));
    }
}
