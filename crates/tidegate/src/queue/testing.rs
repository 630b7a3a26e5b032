//! For tests of the queues alone: a shared store makes no exact forecasts.

use tidegate_core::{Plan, Timestamp};

use super::forecast::{Forecast, Forecaster};
use crate::memory::MemoryStore;

/// No forecasts.
pub(super) enum NoForecaster {}

pub(super) fn no_forecast<'a>() -> Option<Forecast<'a, NoForecaster>> {
    None
}

impl Forecaster for NoForecaster {
    fn store(&self) -> &MemoryStore {
        match *self {}
    }

    fn plan(&self, _: Timestamp) -> Plan<'_> {
        match *self {}
    }

    fn next_expiry(&self, _: Timestamp) -> Option<Timestamp> {
        match *self {}
    }
}
