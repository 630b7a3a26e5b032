//! The fields of a limit, before they are checked.

use super::{AlgorithmName, Limit, LimitError};
use crate::algorithm::{
    Align, Concurrency, CountDenied, Edges, FixedWindow, Gcra, LeakyBucket, PackedAlgorithm,
    SUB_WINDOWS_DEFAULT, SUB_WINDOWS_MAX, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
    UsageLogAlgorithm,
};
use crate::{Algorithm, Rate, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};

/// The fields of a limit's long form. A field that is `None` takes its default. [`build`](Self::build) checks the rest.
///
/// ```
/// use tidegate_core::{AlgorithmName, LimitSpec};
///
/// let minute_ns = 60_000_000_000;
/// let limit = LimitSpec { algorithm: Some(AlgorithmName::SlidingLog), ..LimitSpec::new(100, minute_ns) }.build()?;
/// assert_eq!(limit.to_string(), "{algorithm: sliding_log, limit: 100, per: 1m}");
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSpec {
    /// The algorithm; `gcra` by default.
    pub algorithm: Option<AlgorithmName>,
    /// L, the units per window. Zero denies everything.
    pub limit: u64,
    /// W, the window in nanoseconds. For calendar windows it is one day, seven days or thirty days. A `concurrency`
    /// limit has no window; there it is zero.
    pub per_ns: u64,
    /// B, the units that may come at once (`gcra`, `token_bucket`); L by default.
    pub burst: Option<u64>,
    /// Q, the units that may wait (`leaky_bucket`); L by default.
    pub queue: Option<u64>,
    /// n (`sub_windows`); 60 by default.
    pub sub_windows: Option<u64>,
    /// Count one more sub-window, so that no window ever has more than L (`sub_windows`); true by default.
    pub strict: Option<bool>,
    /// Which denied attempts to charge too (`fixed_window`, `sliding_log`); none by default.
    pub count_denied: Option<CountDenied>,
    /// D, the age in nanoseconds that the last request must have (`sliding_log`); none by default.
    pub min_interval_ns: Option<u64>,
    /// Where windows begin (`fixed_window`); at the epoch by default.
    pub align: Option<Align>,
    /// How long a lease lasts, in nanoseconds (`concurrency`, required there).
    pub ttl_ns: Option<u64>,
    /// The name of the limit in answers. It also identifies the limit when limits change.
    pub name: Option<String>,
}

/// A longer name is a mistake.
const NAME_BYTES_MAX: usize = 128;

impl LimitSpec {
    /// The names of the fields in the long form.
    pub const FIELDS: [&str; 12] = [
        "algorithm",
        "limit",
        "per",
        "burst",
        "queue",
        "sub_windows",
        "strict",
        "count_denied",
        "min_interval",
        "align",
        "ttl",
        "name",
    ];

    /// `limit` per `per_ns` nanoseconds, with defaults for everything else.
    pub fn new(limit: u64, per_ns: u64) -> Self {
        Self { limit, per_ns, ..Self::default() }
    }

    /// The limit that denies every request. It needs no window; the shortest that people read easily is enough.
    pub fn deny() -> Self {
        Self::new(0, 1_000_000_000)
    }

    /// Builds the limit, if every field is in range and fits the algorithm.
    pub fn build(self) -> Result<Limit, LimitError> {
        let algorithm = self.algorithm.unwrap_or_default();
        self.check_options(algorithm)?;
        let rate = Rate::new(self.limit, self.span_ns(algorithm)?)?;
        let count_denied = self.count_denied.unwrap_or_default();
        let algorithm = match algorithm {
            AlgorithmName::Gcra => Algorithm::Packed(PackedAlgorithm::Gcra(self.gcra(rate)?)),
            AlgorithmName::TokenBucket => {
                Algorithm::Packed(PackedAlgorithm::TokenBucket(TokenBucket(self.gcra(rate)?)))
            }
            AlgorithmName::LeakyBucket => {
                let queue = units("queue", self.queue, rate)?;
                Algorithm::Packed(PackedAlgorithm::LeakyBucket(LeakyBucket::new(rate, queue)))
            }
            AlgorithmName::FixedWindow => {
                let edges = self.edges()?;
                Algorithm::Packed(PackedAlgorithm::FixedWindow(FixedWindow { rate, edges, count_denied }))
            }
            AlgorithmName::SlidingWindow => {
                Algorithm::Packed(PackedAlgorithm::SlidingWindow(SlidingWindow::new(rate)))
            }
            AlgorithmName::SlidingLog => {
                let min_interval_ns = self.min_interval(rate)?;
                Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(SlidingLog {
                    rate,
                    count_denied,
                    min_interval_ns,
                }))
            }
            AlgorithmName::SubWindows => {
                let (sub_windows, strict) = (self.checked_sub_windows()?, self.strict.unwrap_or(true));
                Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(SubWindows { rate, sub_windows, strict }))
            }
            AlgorithmName::Concurrency => Algorithm::Leases(Concurrency { rate }),
        };
        Ok(Limit { name: self.checked_name()?, algorithm })
    }

    /// Refuses options that the algorithm does not take, because they would silently have no effect.
    fn check_options(&self, algorithm: AlgorithmName) -> Result<(), LimitError> {
        let options = [
            ("burst", self.burst.is_some()),
            ("queue", self.queue.is_some()),
            ("sub_windows", self.sub_windows.is_some()),
            ("strict", self.strict.is_some()),
            ("count_denied", self.count_denied.is_some()),
            ("min_interval", self.min_interval_ns.is_some()),
            ("align", self.align.is_some()),
            ("ttl", self.ttl_ns.is_some()),
        ];
        let stray = options.iter().find(|(option, is_set)| *is_set && !algorithm.options().contains(option));
        let Some((option, _)) = stray else { return Ok(()) };
        let takers: Vec<&str> = AlgorithmName::ALL
            .into_iter()
            .filter(|taker| taker.options().contains(option))
            .map(AlgorithmName::as_str)
            .collect();
        Err(LimitError::new(
            format!("`{option}` does not go with algorithm {algorithm}"),
            format!("leave it out, or use algorithm: {}", takers.join(" or ")),
        )
        .with_field(option))
    }

    /// The window, or the ttl of a concurrency limit.
    fn span_ns(&self, algorithm: AlgorithmName) -> Result<u64, LimitError> {
        match (algorithm, self.ttl_ns) {
            (AlgorithmName::Concurrency, _) if self.per_ns > 0 => Err(LimitError::new(
                "`per` does not go with algorithm concurrency",
                "write ttl instead of per",
            )
            .with_field("per")),
            (AlgorithmName::Concurrency, None) => Err(LimitError::new(
                "a concurrency limit has no ttl",
                "add for example `ttl: 30s`, longer than any unit is held",
            )),
            (AlgorithmName::Concurrency, Some(ttl_ns))
                if !(WINDOW_NS_MIN..=WINDOW_NS_MAX).contains(&ttl_ns) =>
            {
                Err(LimitError::new(
                    format!("a ttl of {ttl_ns}ns is out of range"),
                    "it goes from 1ms to 10 years (3650d)",
                )
                .with_field("ttl"))
            }
            (AlgorithmName::Concurrency, Some(ttl_ns)) => Ok(ttl_ns),
            _ => Ok(self.per_ns),
        }
    }

    fn gcra(&self, rate: Rate) -> Result<Gcra, LimitError> {
        Ok(Gcra::new(rate, units("burst", self.burst, rate)?))
    }

    fn edges(&self) -> Result<Edges, LimitError> {
        match &self.align {
            None | Some(Align::Epoch) => Ok(Edges::Epoch),
            Some(Align::FirstHit) => Ok(Edges::FirstHit),
            Some(Align::Calendar(calendar)) => Ok(Edges::Calendar(calendar.build(self.per_ns)?)),
        }
    }

    fn min_interval(&self, rate: Rate) -> Result<u64, LimitError> {
        match self.min_interval_ns {
            None => Ok(0),
            Some(interval) if (1..=rate.window_ns()).contains(&interval) => Ok(interval),
            Some(interval) => Err(LimitError::new(
                format!("a min_interval of {interval}ns is out of range"),
                format!("it goes from 1ns to the window, {}ns", rate.window_ns()),
            )
            .with_field("min_interval")),
        }
    }

    fn checked_sub_windows(&self) -> Result<u32, LimitError> {
        let number = self.sub_windows.unwrap_or(u64::from(SUB_WINDOWS_DEFAULT));
        match u32::try_from(number) {
            Ok(number) if (1..=SUB_WINDOWS_MAX).contains(&number) => Ok(number),
            _ => Err(LimitError::new(
                format!("{number} sub_windows are out of range"),
                format!("a window has 1 to {SUB_WINDOWS_MAX} of them"),
            )
            .with_field("sub_windows")),
        }
    }

    fn checked_name(self) -> Result<Option<Box<str>>, LimitError> {
        let Some(name) = self.name else { return Ok(None) };
        let is_allowed = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
        let is_trimmed = !name.is_empty() && name.trim() == name;
        if !is_trimmed || name.len() > NAME_BYTES_MAX || !name.chars().all(is_allowed) {
            return Err(LimitError::new(
                format!("`{}` is not a name", name.chars().take(NAME_BYTES_MAX).collect::<String>()),
                format!(
                    "names have 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` and spaces between them"
                ),
            )
            .with_field("name"));
        }
        Ok(Some(name.into_boxed_str()))
    }
}

/// A burst or a queue. The rate's limit by default.
fn units(option: &'static str, units: Option<u64>, rate: Rate) -> Result<u64, LimitError> {
    match units {
        None => Ok(rate.limit()),
        Some(units) if (1..=UNITS_MAX).contains(&units) => Ok(units),
        Some(units) => Err(LimitError::new(
            format!("{option} {units} is out of range"),
            format!("it goes from 1 to {UNITS_MAX}"),
        )
        .with_field(option)),
    }
}
