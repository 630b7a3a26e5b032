//! A debit that is under way, and the requests that wait for it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::store::StoreError;

/// A debit that is under way. At most one for each key.
#[derive(Default)]
pub(super) struct Refill {
    state: Mutex<RefillState>,
}

#[derive(Default)]
struct RefillState {
    result: Option<RefillResult>,
    waiting: Vec<Waker>,
}

/// How a debit ended.
#[derive(Clone, Debug)]
pub(super) enum RefillResult {
    /// The store answered. The key has new units, unless the store denied them.
    Answered,
    /// The store did not answer.
    Failed(StoreError),
}

/// Waits for a refill.
pub(super) struct RefillDone(pub Arc<Refill>);

impl Refill {
    /// Ends the refill, and wakes all that wait for it.
    pub fn finish(&self, result: RefillResult) {
        let waiting = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Future for RefillDone {
    type Output = RefillResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RefillResult> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.result {
            Some(result) => Poll::Ready(result.clone()),
            None => {
                if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
