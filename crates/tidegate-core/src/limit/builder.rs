//! Builds limits in code.

use std::fmt;
use std::time::Duration;

use super::{AlgorithmName, Limit, LimitError, LimitSpec};
use crate::algorithm::{Align, CalendarSpec, CountDenied, Weekday};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// A limit that is being built. Start with [`Limit::per`] or a similar function. Finish with [`build`](Self::build), or
/// pass the builder itself to a limiter.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Limit;
///
/// let limit = Limit::per(100, Duration::from_secs(60)).burst(20).build()?;
/// assert_eq!(limit, "100 per minute burst 20".parse()?);
///
/// let login = Limit::per_minute(5).sliding_log().min_interval(Duration::from_secs(1)).name("login").build()?;
/// assert_eq!(
///     login.to_string(),
///     "{algorithm: sliding_log, limit: 5, per: 1m, min_interval: 1s, name: login}"
/// );
///
/// let daily = Limit::per_day(1000).tz("Europe/Berlin").build()?;
/// assert_eq!(
///     daily.to_string(),
///     "{algorithm: fixed_window, limit: 1000, per: day, align: {tz: Europe/Berlin}}"
/// );
///
/// let jobs = Limit::concurrency(3, Duration::from_secs(90)).build()?;
/// assert_eq!(jobs.to_string(), "{algorithm: concurrency, limit: 3, ttl: 90s}");
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
///
/// The default algorithm is `gcra`. An option that only one algorithm has selects that algorithm, unless another one
/// was chosen. [`build`](Self::build) refuses options that do not go with the algorithm.
///
/// ```
/// # use tidegate_core::Limit;
/// let error = Limit::per_second(10).sliding_window().burst(20).build().unwrap_err();
/// assert!(error.problem().contains("`burst` does not go with algorithm sliding_window"));
/// ```
///
/// `Display` writes the long form, with all fields that were set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "call `build` to make the limit"]
pub struct LimitBuilder {
    spec: LimitSpec,
}

/// Builds limits in code; see [`LimitBuilder`].
impl Limit {
    /// `limit` units per `window`, which must be 1 ms to 10 years.
    pub fn per(limit: u64, window: Duration) -> LimitBuilder {
        LimitBuilder { spec: LimitSpec::new(limit, nanos(window)) }
    }

    /// `limit` units per second.
    pub fn per_second(limit: u64) -> LimitBuilder {
        Self::per(limit, SECOND)
    }

    /// `limit` units per minute.
    pub fn per_minute(limit: u64) -> LimitBuilder {
        Self::per(limit, MINUTE)
    }

    /// `limit` units per hour.
    pub fn per_hour(limit: u64) -> LimitBuilder {
        Self::per(limit, HOUR)
    }

    /// `limit` units per 24 hours, or per calendar day with [`tz`](LimitBuilder::tz).
    pub fn per_day(limit: u64) -> LimitBuilder {
        Self::per(limit, DAY)
    }

    /// `limit` units per 7 days, or per calendar week with [`tz`](LimitBuilder::tz).
    pub fn per_week(limit: u64) -> LimitBuilder {
        Self::per(limit, WEEK)
    }

    /// `limit` units per 30 days, or per calendar month with [`tz`](LimitBuilder::tz).
    pub fn per_month(limit: u64) -> LimitBuilder {
        Self::per(limit, MONTH)
    }

    /// `limit` units in flight, each for at most `ttl`.
    pub fn concurrency(limit: u64, ttl: Duration) -> LimitBuilder {
        let spec = LimitSpec {
            algorithm: Some(AlgorithmName::Concurrency),
            ttl_ns: Some(nanos(ttl)),
            ..LimitSpec::new(limit, 0)
        };
        LimitBuilder { spec }
    }
}

/// Algorithms.
impl LimitBuilder {
    /// Uses `gcra`, the default: it refills continuously and admits a burst.
    pub fn gcra(self) -> Self {
        self.algorithm(AlgorithmName::Gcra)
    }

    /// Uses `token_bucket`, which decides exactly as `gcra` does.
    pub fn token_bucket(self) -> Self {
        self.algorithm(AlgorithmName::TokenBucket)
    }

    /// Uses `leaky_bucket`: units leave at an even rate, and at most `queue` units wait.
    pub fn leaky_bucket(mut self, queue: u64) -> Self {
        self.spec.queue = Some(queue);
        self.algorithm(AlgorithmName::LeakyBucket)
    }

    /// Uses `fixed_window`.
    pub fn fixed_window(self) -> Self {
        self.algorithm(AlgorithmName::FixedWindow)
    }

    /// Uses `sliding_window`, which also counts a share of the previous window.
    pub fn sliding_window(self) -> Self {
        self.algorithm(AlgorithmName::SlidingWindow)
    }

    /// Uses `sliding_log`, which is exact and stores every use within a window.
    pub fn sliding_log(self) -> Self {
        self.algorithm(AlgorithmName::SlidingLog)
    }

    /// Uses `sub_windows`, with `number` sub-windows per window.
    pub fn sub_windows(mut self, number: u64) -> Self {
        self.spec.sub_windows = Some(number);
        self.algorithm(AlgorithmName::SubWindows)
    }

    /// Uses the algorithm of this name.
    pub fn algorithm(mut self, algorithm: AlgorithmName) -> Self {
        self.spec.algorithm = Some(algorithm);
        self
    }
}

/// Options.
impl LimitBuilder {
    /// The units that may come at once (`gcra`, `token_bucket`); the limit by default.
    pub fn burst(mut self, units: u64) -> Self {
        self.spec.burst = Some(units);
        self
    }

    /// Whether to count one more sub-window, so that no window ever has more than the limit (`sub_windows`); true by
    /// default.
    pub fn strict(mut self, strict: bool) -> Self {
        self.spec.strict = Some(strict);
        self.default_algorithm(AlgorithmName::SubWindows)
    }

    /// Charges denied attempts too (`fixed_window`, `sliding_log`).
    pub fn count_denied(mut self) -> Self {
        self.spec.count_denied = Some(CountDenied::Always);
        self
    }

    /// Charges a denied attempt too, unless it is over other limits only (`fixed_window`, `sliding_log`).
    pub fn count_denied_if_over(mut self) -> Self {
        self.spec.count_denied = Some(CountDenied::IfOver);
        self
    }

    /// The age that the last request must have (`sliding_log`).
    pub fn min_interval(mut self, interval: Duration) -> Self {
        self.spec.min_interval_ns = Some(nanos(interval));
        self.default_algorithm(AlgorithmName::SlidingLog)
    }

    /// Windows begin with a key's first request, not at multiples of the window since the epoch (`fixed_window`).
    pub fn from_first_hit(self) -> Self {
        self.align(Align::FirstHit)
    }

    /// Windows are the days, weeks or months of a time zone (`fixed_window`). The time zone is a name of the IANA time
    /// zone database. The window must be one day, seven days or thirty days: [`per_day`](Limit::per_day),
    /// [`per_week`](Limit::per_week) or [`per_month`](Limit::per_month).
    pub fn tz(self, tz: impl Into<String>) -> Self {
        self.calendar(|calendar| calendar.tz = tz.into())
    }

    /// The first day of the week; Monday by default. In UTC unless [`tz`](Self::tz) sets another time zone.
    pub fn week_starts(self, weekday: Weekday) -> Self {
        self.calendar(|calendar| calendar.week_starts = Some(weekday))
    }

    /// The first day of the month, 1 to 31; 1 by default. In a month that is too short, the window begins on the last
    /// day. In UTC unless [`tz`](Self::tz) sets another time zone.
    pub fn day_of_month(self, day: u64) -> Self {
        self.calendar(|calendar| calendar.day_of_month = Some(day))
    }

    /// Where windows begin (`fixed_window`); at the epoch by default.
    pub fn align(mut self, align: Align) -> Self {
        self.spec.align = Some(align);
        self.default_algorithm(AlgorithmName::FixedWindow)
    }

    /// The name of the limit in answers. It also identifies the limit when limits change.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.spec.name = Some(name.into());
        self
    }
}

impl LimitBuilder {
    /// Builds the limit, if every option is in range and goes with the algorithm.
    pub fn build(self) -> Result<Limit, LimitError> {
        self.spec.build()
    }

    /// All fields that were set, unchecked.
    pub fn spec(&self) -> &LimitSpec {
        &self.spec
    }

    fn default_algorithm(mut self, algorithm: AlgorithmName) -> Self {
        self.spec.algorithm.get_or_insert(algorithm);
        self
    }

    fn calendar(mut self, change: impl FnOnce(&mut CalendarSpec)) -> Self {
        let mut calendar = match self.spec.align.take() {
            Some(Align::Calendar(calendar)) => calendar,
            _ => CalendarSpec::default(),
        };
        change(&mut calendar);
        self.align(Align::Calendar(calendar))
    }
}

impl TryFrom<LimitBuilder> for Limit {
    type Error = LimitError;

    fn try_from(builder: LimitBuilder) -> Result<Self, LimitError> {
        builder.build()
    }
}

impl fmt::Display for LimitBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

/// A span that does not fit is longer than any window, so [`LimitSpec::build`] refuses it.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
