//! "Admitted iff the count of window floor(t/W), plus c, is <= L. Aligned to the epoch; `align: first_hit`
//! starts the window at the first request."

use tidegate_core::algorithm::Align;

use super::{Event, Model, sum_of};

#[derive(Debug)]
pub struct FixedWindow {
    pub limit: u64,
    pub window: u64,
    pub align: Align,
    pub count_denied: bool,
}

impl FixedWindow {
    /// Where the window starts that a request at `at` is counted in, `last` being the window of the request
    /// before it. One from before that window is counted in it.
    fn start(&self, at: u128, last: Option<u128>) -> u128 {
        let window = u128::from(self.window);
        match last {
            Some(last) if at < last + window => last,
            _ => match self.align {
                Align::Epoch => at / window * window,
                Align::FirstHit => at,
            },
        }
    }
}

impl Model for FixedWindow {
    fn admits(&self, past: &[Event], asked: Event) -> bool {
        let mut last = None;
        let mut in_windows = Vec::new();
        for event in past {
            let start = self.start(event.at, last);
            in_windows.push(Event { at: start, ..*event });
            last = Some(start);
        }
        let current = self.start(asked.at, last);
        // A window that starts with this very request holds nothing yet.
        let used = sum_of(in_windows.into_iter().filter(|event| event.at == current));
        used + u128::from(asked.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn counts_denied(&self) -> bool {
        self.count_denied
    }
}
