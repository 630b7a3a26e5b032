//! The retry budget: a token bucket of retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A retry takes this much.
const RETRY_PARTS: u64 = 100;

/// How many retries clients may make in proportion to their requests. Clones share one budget.
///
/// Each request adds a part of a retry, and each retry takes a whole one. While nearly all requests fail, a client sends at
/// most `1 + percent / 100` times its requests, however often each could be retried. Without a budget, a server that is
/// already overloaded gets several times the load.
///
/// ```
/// use tidegate::tower::client::RetryBudget;
///
/// // One retry for five requests in the long run, and ten before there were any.
/// let budget = RetryBudget::new(20, 10);
/// # let _ = budget;
/// ```
#[derive(Clone, Debug)]
pub struct RetryBudget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    parts: AtomicU64,
    parts_max: u64,
    parts_per_request: u64,
}

impl RetryBudget {
    /// `percent` retries for 100 requests. Up to `reserve` unused retries are kept. The budget starts with `reserve` retries.
    pub fn new(percent: u32, reserve: u32) -> Self {
        let parts_max = u64::from(reserve) * RETRY_PARTS;
        Self(Arc::new(BudgetState {
            parts: AtomicU64::new(parts_max),
            parts_max,
            parts_per_request: u64::from(percent),
        }))
    }

    /// Counts a request.
    pub(super) fn add_request(&self) {
        let Self(state) = self;
        let add = |parts: u64| Some(parts.saturating_add(state.parts_per_request).min(state.parts_max));
        let _ = state.parts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes a retry. None if there is none left.
    pub(super) fn take_retry(&self) -> Option<()> {
        let take = |parts: u64| parts.checked_sub(RETRY_PARTS);
        self.0.parts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(drop)
    }
}

impl Default for RetryBudget {
    /// 20 percent, with a reserve of 10.
    fn default() -> Self {
        Self::new(20, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::RetryBudget;

    #[test]
    fn retries_are_a_share_of_the_requests() {
        let budget = RetryBudget::new(20, 2);
        let taken = |times: usize| (0..times).filter_map(|_| budget.take_retry()).count();
        assert_eq!(taken(5), 2);
        (0..4).for_each(|_| budget.add_request());
        assert_eq!(taken(5), 0);
        budget.add_request();
        assert_eq!(taken(5), 1);
        // An idle client does not save up more than its reserve.
        (0..1_000).for_each(|_| budget.add_request());
        assert_eq!(taken(5), 2);
    }
}
