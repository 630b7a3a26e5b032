//! "e = t mod W; prev and cur are the admitted cost of the previous and the current epoch-aligned window.
//! Admitted iff prev*(W-e) + (cur+c)*W <= L*W, in integers."

use super::{Event, Model, stamped, sum_of};

#[derive(Debug)]
pub struct SlidingWindow {
    pub limit: u64,
    pub window: u64,
}

impl Model for SlidingWindow {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        let window = u128::from(self.window);
        let counted = stamped(past, |at| at / window);
        // An instant before the window of the newest request is the start of that window.
        let t = counted.last().map_or(request.at, |newest| request.at.max(newest.at * window));
        let (number, e) = (t / window, t % window);
        let in_window =
            |number: Option<u128>| sum_of(counted.iter().copied().filter(|event| Some(event.at) == number));
        let (prev, cur) = (in_window(number.checked_sub(1)), in_window(Some(number)));
        prev * (window - e) + (cur + u128::from(request.cost)) * window <= u128::from(self.limit) * window
    }

    fn capacity(&self) -> u64 {
        self.limit
    }
}
