//! Builds a pacer.

use std::time::Duration;

use tidegate_core::{Rate, WINDOW_NS_MAX};

use super::error::{PacerError, PacerErrorKind};
use super::schedule::Schedule;
use super::shape::{COLD_FACTOR_TERM_MAX, ColdFactor, PacerShape};
use super::{IntoRate, Pacer};
use crate::limiter::builder::BuilderValue;
use crate::sync::Mutex;
use crate::{Clock, SystemClock};

/// How long unused permits are stored by default.
const BURST_DEFAULT: Duration = Duration::from_secs(1);
/// The longest burst and the longest warm-up: ten years of 365 days.
const SPAN_NS_MAX: u64 = WINDOW_NS_MAX;

/// Builds a [`Pacer`]: a rate, and what happens to unused permits.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ColdFactor, Pacer};
///
/// let bursty = Pacer::builder().rate("2 per s").max_burst_seconds(10).build()?;
/// let warming = Pacer::builder().rate("2/s").warm_up(Duration::from_secs(4)).cold_factor(3).build()?;
///
/// let error = Pacer::builder().rate("2/s burst 10").build().unwrap_err();
/// assert!(error.to_string().contains("leave the burst out"));
/// # Ok::<(), tidegate::PacerError>(())
/// ```
#[derive(Debug)]
pub struct PacerBuilder<C = SystemClock> {
    rate: Option<Result<Rate, PacerError>>,
    burst: Option<Duration>,
    warm_up: Option<Duration>,
    cold_factor: Option<ColdFactor>,
    clock: BuilderValue<C>,
}

impl PacerBuilder {
    pub(super) fn new() -> Self {
        Self {
            rate: None,
            burst: None,
            warm_up: None,
            cold_factor: None,
            clock: BuilderValue::Default(SystemClock::new),
        }
    }
}

impl<C> PacerBuilder<C> {
    /// Permits per time: `5/s`, `100 per minute`, or a [`Rate`].
    #[must_use]
    pub fn rate(mut self, rate: impl IntoRate) -> Self {
        self.rate = Some(rate.into_rate());
        self
    }

    /// Stores the unused permits of the last `seconds`, and hands them out without a wait. The default is 1, as in
    /// Guava. With 0 none are stored.
    #[must_use]
    pub fn max_burst_seconds(self, seconds: u64) -> Self {
        self.max_burst(Duration::from_secs(seconds))
    }

    /// As [`max_burst_seconds`](Self::max_burst_seconds), with nanosecond precision.
    #[must_use]
    pub fn max_burst(mut self, span: Duration) -> Self {
        self.burst = Some(span);
        self
    }

    /// Warms up: at the start, and after a time without requests, permits come slowly, then faster, and at the full
    /// rate after this much time under load. The pacer is cold again after the same time without load.
    #[must_use]
    pub fn warm_up(mut self, period: Duration) -> Self {
        self.warm_up = Some(period);
        self
    }

    /// How many times as long a permit takes when the pacer is cold. The default is 3, as in Guava.
    #[must_use]
    pub fn cold_factor(mut self, factor: impl Into<ColdFactor>) -> Self {
        self.cold_factor = Some(factor.into());
        self
    }

    /// Sets the clock, which also provides the sleeps.
    #[must_use]
    pub fn clock<D: Clock>(self, clock: D) -> PacerBuilder<D> {
        PacerBuilder {
            rate: self.rate,
            burst: self.burst,
            warm_up: self.warm_up,
            cold_factor: self.cold_factor,
            clock: BuilderValue::Set(clock),
        }
    }

    fn shape(&self) -> Result<PacerShape, PacerError> {
        match (self.warm_up, self.burst, self.cold_factor) {
            (Some(_), Some(_), _) => Err(PacerError(PacerErrorKind::BurstAndWarmUp)),
            (None, _, Some(_)) => Err(PacerError(PacerErrorKind::ColdFactorAlone)),
            (None, burst, None) => {
                let burst_ns =
                    nanos(burst.unwrap_or(BURST_DEFAULT)).ok_or(PacerError(PacerErrorKind::BurstTooLong))?;
                Ok(PacerShape::Bursty { burst_ns })
            }
            (Some(period), None, factor) => {
                let in_range = nanos(period).filter(|period_ns| *period_ns > 0);
                let warm_up_ns = in_range.ok_or(PacerError(PacerErrorKind::WarmUpOutOfRange))?;
                Ok(PacerShape::WarmingUp {
                    warm_up_ns,
                    cold_factor: check_cold_factor(factor.unwrap_or_default())?,
                })
            }
        }
    }
}

impl<C: Clock> PacerBuilder<C> {
    /// Builds the pacer, if all values are in range and can be combined.
    pub fn build(self) -> Result<Pacer<C>, PacerError> {
        let shape = self.shape()?;
        let rate = self.rate.ok_or(PacerError(PacerErrorKind::NoRate))??;
        let clock = self.clock.into_value();
        let schedule = Mutex::new(Schedule::new(shape, rate, clock.now()));
        Ok(Pacer { schedule, clock })
    }
}

fn nanos(span: Duration) -> Option<u64> {
    u64::try_from(span.as_nanos()).ok().filter(|span_ns| *span_ns <= SPAN_NS_MAX)
}

fn check_cold_factor(factor: ColdFactor) -> Result<ColdFactor, PacerError> {
    let ColdFactor { numerator, denominator } = factor;
    let terms = 1..=COLD_FACTOR_TERM_MAX;
    if terms.contains(&numerator) && terms.contains(&denominator) && numerator >= denominator {
        Ok(factor)
    } else {
        Err(PacerError(PacerErrorKind::ColdFactorOutOfRange(factor)))
    }
}
