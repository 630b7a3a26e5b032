//! Implements the store interface for the memory store.

use std::sync::Arc;

use tidegate_core::Op;

use super::{Ask, LeaseReply, Reply, Response, Store};
use crate::memory::{MemoryStore, Release, Renewal};

impl MemoryStore {
    /// Does what is asked, immediately.
    #[inline]
    pub(crate) fn ask_now(&self, ask: &Ask<'_, '_>) -> Reply {
        let Ask { op, plan, now, .. } = *ask;
        match op {
            Op::Check => {
                let (outcomes, lease) = self.check_plan(plan, now);
                Reply::new(now, outcomes).with_lease(lease)
            }
            Op::Peek => Reply::new(now, self.peek(plan, now)),
            op => self.ask_uncommon(op, ask),
        }
    }

    #[inline(never)]
    fn ask_uncommon(&self, op: Op, ask: &Ask<'_, '_>) -> Reply {
        let Ask { plan, now, .. } = *ask;
        match op {
            Op::Check | Op::Peek => self.ask_now(ask),
            Op::Deny { counted } => Reply::new(now, self.deny(plan, now, counted)),
            Op::Acquire { ttl } => {
                let (outcomes, lease) = self.acquire(plan, now, ttl);
                Reply::new(now, outcomes).with_lease(lease)
            }
            Op::Renew { token, ttl } => {
                Reply::empty(now).with_lease(match self.renew(plan, &token, now, ttl) {
                    Renewal::Renewed(lease) => LeaseReply::Held(lease),
                    Renewal::AlreadyReleased => LeaseReply::AlreadyReleased,
                    Renewal::Expired => LeaseReply::Expired,
                    Renewal::WrongOwner => LeaseReply::WrongOwner,
                })
            }
            Op::Release { token } => Reply::empty(now).with_lease(match self.release(plan, &token, now) {
                Release::Released => LeaseReply::Released,
                Release::AlreadyReleased => LeaseReply::AlreadyReleased,
                Release::Expired => LeaseReply::Expired,
                Release::WrongOwner => LeaseReply::WrongOwner,
            }),
            Op::Refund { charged_at } => {
                match charged_at {
                    Some(charged_at) => self.refund_charged_at(plan, charged_at, now),
                    None => self.refund(plan, now),
                }
                Reply::empty(now)
            }
            Op::Count { ago } => {
                let from = now.saturating_sub(ago);
                let states =
                    plan.charges().iter().map(|charge| self.count_since(charge, from, now)).collect();
                Reply { states: Some(states), ..Reply::empty(now) }
            }
            _ => {
                self.reset(plan);
                Reply::empty(now)
            }
        }
    }
}

/// All counters are in this process.
impl Store for Arc<MemoryStore> {
    #[inline]
    fn ask(&self, ask: &Ask<'_, '_>) -> Response {
        Response::Now(Ok(self.ask_now(ask)))
    }

    fn local(&self) -> Option<&Arc<MemoryStore>> {
        Some(self)
    }

    fn is_local(&self) -> bool {
        true
    }
}
