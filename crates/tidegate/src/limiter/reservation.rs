//! A charge that is given back unless it is committed.

use std::sync::Arc;

use tidegate_core::{ChargedAt, Decision, Timestamp};

use super::admitted::{GrantedUnits, LimiterRef};
use crate::memory::MemoryStore;
use crate::store::Store;
use crate::{Clock, SystemClock};

/// Units that were charged, made by [`Limiter::reserve`](crate::Limiter::reserve). Dropped, it gives back what it was charged, as of
/// when it was charged: nothing that was used since, and nothing of a window that is over. [`commit`](Self::commit) keeps the charge.
///
/// A bucket (`gcra`, `token_bucket`, `leaky_bucket`) refills while the reservation is open, and what it refilled since the charge is not
/// given back. However reservations are committed and dropped, a limit never admits more than it would if those that were dropped had
/// never been made.
///
/// Over a shared store, dropping it does not wait: the refund is sent in the background, once. If the store does not answer, the units
/// stay charged until they are free by themselves. So do units that were charged in this process while the store did not answer.
#[must_use = "what was reserved is given back when this is dropped"]
pub struct Reservation<'a, C: Clock = SystemClock, S: Store = Arc<MemoryStore>> {
    limiter: LimiterRef<'a, C, S>,
    key: Box<[u8]>,
    cost: u64,
    granted: GrantedUnits,
    /// When it was charged, by the store's clock; none once it is committed. No more is said of it than the instant: what a bucket held
    /// before may be given back by another reservation.
    charged_at: Option<ChargedAt>,
}

impl<'a, C: Clock, S: Store> Reservation<'a, C, S> {
    pub(super) fn new(
        limiter: LimiterRef<'a, C, S>,
        key: &[u8],
        cost: u64,
        granted: GrantedUnits,
        charged_at: Timestamp,
    ) -> Self {
        Self { limiter, key: key.into(), cost, granted, charged_at: Some(ChargedAt::new(charged_at)) }
    }

    /// What the limits said when it was charged.
    pub fn decision(&self) -> &Decision {
        &self.granted.decision
    }

    /// Keeps the charge. What concurrency limits gave is held for their ttl.
    pub fn commit(mut self) {
        self.charged_at = None;
    }
}

impl<C: Clock, S: Store> Drop for Reservation<'_, C, S> {
    fn drop(&mut self) {
        if let Some(charged_at) = self.charged_at {
            self.limiter.get().undo_charge(&self.key, self.cost, &self.granted, charged_at);
        }
    }
}

impl<C: Clock, S: Store> std::fmt::Debug for Reservation<'_, C, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("decision", self.decision()).finish_non_exhaustive()
    }
}
