//! "Admitted iff the count of window floor(t/W), plus c, is <= L. Aligned to the epoch; `align: first_hit`
//! starts the window at the first request; calendar windows (day, week, month, billing day) in a time zone."

use tidegate_core::algorithm::Align;

use super::calendar::{Calendar, Window};
use super::{Event, Model, sum_of};

#[derive(Debug)]
pub struct FixedWindow {
    pub limit: u64,
    pub window: u64,
    pub align: Align,
    pub count_denied: bool,
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
}

impl Model for FixedWindow {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        let mut last = None;
        let mut in_windows = Vec::new();
        for event in past {
            let window = self.window(event.at, last);
            in_windows.push(Event { at: window.start, ..*event });
            last = Some(window);
        }
        let current = self.window(request.at, last);
        // A window that starts with this request is empty.
        let used = sum_of(in_windows.into_iter().filter(|event| event.at == current.start));
        used + u128::from(request.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}
