//! Release and refund in the background, for guards that are dropped.

use tidegate_core::{ChargedAt, LeaseToken, Op, Timestamp};

use super::{GrantedUnits, Limiter};
use crate::store::{Ask, LeaseReply, Reply, Response, Store};
use crate::{Clock, StoreError, background};

impl<C: Clock, S: Store> Limiter<C, S> {
    /// Releases a lease. The memory store releases it immediately. A shared store is asked once, and waiters of this
    /// process are woken when it has answered. If it does not answer, the lease ends with its ttl.
    pub(super) fn release_in_background(&self, key: &[u8], token: &LeaseToken) {
        let now = self.clock.now();
        self.start_in_background(Op::Release { token: *token }, key, 0, now);
    }

    /// Undoes the charge of a request: releases its lease and refunds its units.
    pub(super) fn undo_charge(&self, key: &[u8], cost: u64, granted: &GrantedUnits, charged_at: ChargedAt) {
        let GrantedUnits { decision, lease, limits_at } = *granted;
        if let Some(lease) = lease {
            self.release_in_background(key, &lease.token);
        }
        // A degraded decision was charged to this process's share of the limit. That share may have changed, so it is
        // not refunded.
        if !decision.degraded {
            self.refund_in_background(key, cost, limits_at, charged_at);
        }
    }

    /// Refunds a charge to the limits that were active at `limits_at`.
    fn refund_in_background(&self, key: &[u8], cost: u64, limits_at: Timestamp, charged_at: ChargedAt) {
        self.start_in_background(Op::Refund { charged_at: Some(charged_at) }, key, cost, limits_at);
    }

    fn start_in_background(&self, op: Op, key: &[u8], cost: u64, limits_at: Timestamp) {
        let now = self.clock.now();
        let response = {
            let plan = self.plan(key, cost, limits_at);
            self.store.ask(&Ask { op, plan: &plan, now, deadline: None })
        };
        match response {
            Response::Now(reply) => {
                if frees_units(op, &reply) {
                    self.queue_group.wake(key, now);
                }
            }
            Response::Later(later) => {
                let (queue_group, key) = (self.queue_group.clone(), Box::<[u8]>::from(key));
                background::spawn(async move {
                    if frees_units(op, &later.await) {
                        queue_group.wake(&key, now);
                    }
                });
            }
        }
    }
}

/// Whether waiters may find units that were not available before.
fn frees_units(op: Op, reply: &Result<Reply, StoreError>) -> bool {
    match (op, reply) {
        (Op::Release { .. }, Ok(reply)) => reply.lease == LeaseReply::Released,
        (_, reply) => reply.is_ok(),
    }
}
