//! Permits between being taken and being used.

use tidegate_core::{Nanos, Timestamp};

use super::schedule::PermitReservation;
use super::{Permits, Pacer};
use crate::Timer;
use crate::sync::lock;

/// Permits that wait for their time to come, and go back if it is not waited for.
pub(super) struct ReservationGuard<'a, C> {
    pacer: &'a Pacer<C>,
    until: Timestamp,
    reservation: Option<PermitReservation>,
}

impl<'a, C> ReservationGuard<'a, C> {
    pub(super) fn new(pacer: &'a Pacer<C>, reservation: PermitReservation, now: Timestamp) -> Self {
        let until = now.saturating_add(reservation.wait);
        Self { pacer, until, reservation: Some(reservation) }
    }
}

impl<C> ReservationGuard<'_, C> {
    /// The permits are used at once.
    pub(super) fn use_now(mut self) {
        self.reservation = None;
    }
}

impl<C: Timer> ReservationGuard<'_, C> {
    pub(super) async fn wait(mut self) -> Permits {
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
