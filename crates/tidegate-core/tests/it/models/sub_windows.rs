//! "The current sub-window is floor(t*n/W). Admitted iff the cost in it and in the n-1 before it (strict: the n
//! before it), plus c, is <= L."

use super::{Event, Model, stamped, sum_of};

#[derive(Debug)]
pub struct SubWindows {
    pub limit: u64,
    pub window: u64,
    /// n
    pub number: u64,
    pub strict: bool,
}

impl Model for SubWindows {
    fn admits(&self, past: &[Event], request: Event) -> bool {
        let n = u128::from(self.number);
        let sub_window = |at: u128| at * n / u128::from(self.window);
        let counted = stamped(past, sub_window);
        let current =
            counted.last().map_or(sub_window(request.at), |newest| newest.at.max(sub_window(request.at)));
        let before = if self.strict { n } else { n - 1 };
        let used = sum_of(counted.into_iter().filter(|event| event.at + before >= current));
        used + u128::from(request.cost) <= u128::from(self.limit)
    }

    fn capacity(&self) -> u64 {
        self.limit
    }
}
