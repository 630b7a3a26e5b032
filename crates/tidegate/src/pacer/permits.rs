//! Permits that were reserved and are not used yet.

use std::time::Duration;

use tidegate_core::{Nanos, Timestamp};

use super::Pacer;
use super::schedule::PermitReservation;
use crate::Timer;
use crate::sync::lock;

/// Reserved permits that wait for their time. Dropped earlier, they are returned.
pub(crate) struct ReservationGuard<'a, C> {
    pacer: &'a Pacer<C>,
    until: Timestamp,
    reservation: Option<PermitReservation>,
}

impl<'a, C> ReservationGuard<'a, C> {
    pub(crate) fn new(pacer: &'a Pacer<C>, reservation: PermitReservation, now: Timestamp) -> Self {
        let until = now.saturating_add(reservation.wait);
        Self { pacer, until, reservation: Some(reservation) }
    }
}

impl<C> ReservationGuard<'_, C> {
    /// The permits are used immediately.
    pub(crate) fn use_now(mut self) {
        self.reservation = None;
    }
}

impl<C: Timer> ReservationGuard<'_, C> {
    pub(crate) async fn wait(mut self) -> Permits {
        let wait = self.reservation.as_ref().map_or(Nanos::ZERO, |reservation| reservation.wait);
        if wait > Nanos::ZERO {
            self.pacer.clock.sleep_until(self.until).await;
        }
        self.reservation = None;
        Permits::after_wait(wait)
    }
}

impl<C> Drop for ReservationGuard<'_, C> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            lock(&self.pacer.schedule).undo(&reservation);
        }
    }
}

/// Permits that a [`Pacer`] handed out, after a wait. They are used up and cannot be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permits {
    waited: Nanos,
}

impl Permits {
    pub(crate) const IMMEDIATE: Self = Self { waited: Nanos::ZERO };

    pub(crate) fn after_wait(waited: Nanos) -> Self {
        Self { waited }
    }

    /// How long the caller waited for them.
    pub fn waited(&self) -> Duration {
        self.waited.as_duration()
    }
}
