//! Stores without exact forecasts.

use tidegate_core::{Plan, Timestamp};

use super::forecast::Forecaster;
use crate::memory::MemoryStore;

/// No forecasts: the counters are in a shared store.
pub(crate) enum NoForecaster {}

impl Forecaster for NoForecaster {
    fn store(&self) -> &MemoryStore {
        match *self {}
    }

    fn plan(&self, _: Timestamp) -> Plan<'_> {
        match *self {}
    }

    fn retires(&self, _: Timestamp) -> Option<Timestamp> {
        match *self {}
    }
}
