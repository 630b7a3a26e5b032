//! A charge that is refunded unless it is committed.

use std::sync::Arc;

use tidegate_core::{ChargedAt, Decision, Timestamp};

use super::admitted::{GrantedUnits, LimiterRef};
use crate::memory::MemoryStore;
use crate::store::Store;
use crate::{Clock, SystemClock};

/// Charged units, returned by [`Limiter::reserve`](crate::Limiter::reserve). Dropping it refunds them as of the instant
/// of the charge: units that were used later are not refunded, nor is a window that is over. [`commit`](Self::commit)
/// keeps the charge.
///
/// A bucket (`gcra`, `token_bucket`, `leaky_bucket`) refills while the reservation is open. What it refilled since the
/// charge is not refunded. In any order of commits and drops, a limit never admits more than it would if the dropped
/// reservations had never been made.
///
/// Over a shared store, dropping it does not block: the refund is sent in the background, once. If the store does not
/// answer, the units stay charged until they expire. So do units that this process charged to its own memory while the
/// store did not answer.
#[must_use = "the units are refunded when this is dropped"]
pub struct Reservation<'a, C: Clock = SystemClock, S: Store = Arc<MemoryStore>> {
    limiter: LimiterRef<'a, C, S>,
    key: Box<[u8]>,
    cost: u64,
    granted: GrantedUnits,
    /// When the units were charged, by the store's clock. None once they are committed. Only the instant is kept:
    /// another reservation may refund what the bucket held before it.
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

    /// The decision that admitted the reservation.
    pub fn decision(&self) -> &Decision {
        &self.granted.decision
    }

    /// Keeps the charge. Leases of concurrency limits are held for their ttl.
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
