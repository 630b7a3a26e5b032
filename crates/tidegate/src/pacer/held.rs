//! Permits between being taken and being used.

use tidegate_core::{Nanos, Timestamp};

use super::schedule::Reservation;
use super::{Paced, Pacer};
use crate::Timer;
use crate::sync::lock;

/// Permits that wait for their time to come, and go back if it is not waited for.
pub(super) struct Held<'a, C> {
    pacer: &'a Pacer<C>,
    until: Timestamp,
    reservation: Option<Reservation>,
}

impl<'a, C> Held<'a, C> {
    pub(super) fn new(pacer: &'a Pacer<C>, reservation: Reservation, now: Timestamp) -> Self {
        let until = now.saturating_add(reservation.wait);
        Self { pacer, until, reservation: Some(reservation) }
    }
}

impl<C> Held<'_, C> {
    /// The permits are used at once.
    pub(super) fn keep(mut self) {
        self.reservation = None;
    }
}

impl<C: Timer> Held<'_, C> {
    pub(super) async fn wait(mut self) -> Paced {
        let wait = self.reservation.as_ref().map_or(Nanos::ZERO, |reservation| reservation.wait);
        if wait > Nanos::ZERO {
            self.pacer.clock.sleep_until(self.until).await;
        }
        self.reservation = None;
        Paced::after(wait)
    }
}

impl<C> Drop for Held<'_, C> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            lock(&self.pacer.schedule).give_back(&reservation);
        }
    }
}
