//! A debit that is under way, and the requests that wait for it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tidegate_core::Timestamp;

use crate::store::StoreError;

/// A debit that is under way. At most one for each key.
pub(super) struct Refill {
    /// By this node's clock.
    pub asked_at: Timestamp,
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

/// Ends the refill if its task is dropped, so that no request waits for it for ever.
pub(super) struct FinishOnDrop(pub Arc<Refill>);

impl Refill {
    pub fn new(asked_at: Timestamp) -> Self {
        Self { asked_at, state: Mutex::default() }
    }

    /// Ends the refill, and wakes all that wait for it. The first result counts.
    pub fn finish(&self, result: RefillResult) {
        let waiting = {
            let mut state = self.lock();
            state.result.get_or_insert(result);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub fn is_finished(&self) -> bool {
        self.lock().result.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, RefillState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish(RefillResult::Failed(StoreError::RuntimeGone));
    }
}

impl Future for RefillDone {
    type Output = RefillResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RefillResult> {
        let mut state = self.0.lock();
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
