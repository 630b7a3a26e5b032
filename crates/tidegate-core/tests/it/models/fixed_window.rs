//! "Admitted iff the count of window floor(t/W), plus c, is <= L. Aligned to the epoch; `align: first_hit`
//! starts the window at the first request; calendar windows (day, week, month, billing day) in a time zone."

use tidegate_core::UNITS_MAX;
use tidegate_core::algorithm::{Align, CountDenied};

use super::calendar::{Calendar, Window};
use super::{Event, Model, sum_of};

#[derive(Debug)]
pub struct FixedWindow {
    pub limit: u64,
    pub window: u64,
    pub align: Align,
    pub count_denied: CountDenied,
}

impl FixedWindow {
    /// The window that a request at `at` counts in. `last` is the window of the previous request. A request from before
    /// that window counts in it.
    fn window(&self, at: u128, last: Option<Window>) -> Window {
        let window = u128::from(self.window);
        let from = |start: u128| Window { start, end: start + window };
        match last {
            Some(last) if at < last.end => last,
            _ => match &self.align {
                Align::Epoch => from(at / window * window),
                Align::FirstHit => from(at),
                Align::Calendar(spec) => Calendar { spec: spec.clone(), window: self.window }.window(at),
            },
        }
    }

    /// The units used in the window of a request at `at`.
    fn used(&self, past: &[Event], at: u128) -> u128 {
        let mut last = None;
        let mut in_windows = Vec::new();
        for event in past {
            let window = self.window(event.at, last);
            in_windows.push(Event { at: window.start, ..*event });
            last = Some(window);
        }
        let current = self.window(at, last);
        // A window that starts with this request is empty.
        sum_of(in_windows.into_iter().filter(|event| event.at == current.start))
    }
}

impl Model for FixedWindow {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        self.used(past, request.at) + u128::from(request.cost) <= u128::from(self.limit)
    }

    /// The count saturates at one unit more than any limit.
    fn over(&self, past: &[Event], at: u128) -> u64 {
        let used = self.used(past, at).min(u128::from(UNITS_MAX) + 1);
        u64::try_from(used).expect("it is small").saturating_sub(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn count_denied(&self) -> CountDenied {
        self.count_denied
    }
}
