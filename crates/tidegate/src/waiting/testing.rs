//! For tests of the queues alone: a shared store makes no exact forecasts.

use super::forecast::Forecast;
pub(super) use super::no_forecaster::NoForecaster;

pub(super) fn no_forecast<'a>() -> Option<Forecast<'a, NoForecaster>> {
    None
}
