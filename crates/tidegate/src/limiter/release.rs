//! Giving back without waiting, for guards that are dropped.

use tidegate_core::{ChargedAt, LeaseToken, Op, Timestamp};

use super::Limiter;
use crate::store::{Ask, Response, Store};
use crate::{Clock, background};

impl<C: Clock, S: Store> Limiter<C, S> {
    /// Releases a lease. Memory does so at once; a shared store is asked once, and waiters of this process are woken when it has
    /// answered. If it does not answer, the lease ends with its ttl.
    pub(super) fn release_in_background(&self, key: &[u8], token: &LeaseToken) {
        let now = self.clock.now();
        self.start_in_background(Op::Release { token: *token }, key, 0, now);
    }

    /// Gives back what was charged, to the limits that were in force at `asked`.
    pub(super) fn refund_in_background(
        &self,
        key: &[u8],
        cost: u64,
        asked: Timestamp,
        charged_at: ChargedAt,
    ) {
        self.start_in_background(Op::Refund { charged_at: Some(charged_at) }, key, cost, asked);
    }

    fn start_in_background(&self, op: Op, key: &[u8], cost: u64, limits_at: Timestamp) {
        let now = self.clock.now();
        let response = {
            let plan = self.plan(key, cost, limits_at);
            self.store.ask(&Ask { op, plan: &plan, now, deadline: None })
        };
        match response {
            Response::Now(_) => self.queue_group.wake(key, now),
            Response::Later(later) => {
                let (queue_group, key) = (self.queue_group.clone(), Box::<[u8]>::from(key));
                background::spawn(async move {
                    // If the store does not answer, there is nobody left to tell.
                    let _ = later.await;
                    queue_group.wake(&key, now);
                });
            }
        }
    }
}
