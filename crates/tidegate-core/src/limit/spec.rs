//! A limit as it was asked for, before anything is checked.

use super::{Algorithm, AlgorithmName, Limit, LimitError};
use crate::algorithm::{
    Align, Concurrency, Edges, FixedWindow, Gcra, LeakyBucket, UsageLogAlgorithm, PackedAlgorithm,
    SUB_WINDOWS_DEFAULT, SUB_WINDOWS_MAX, SlidingLog, SlidingWindow, SubWindows, TokenBucket,
};
use crate::{Rate, UNITS_MAX, WINDOW_NS_MAX, WINDOW_NS_MIN};

/// The fields of a limit's long form. What is `None` takes its default; [`build`](Self::build) checks the rest.
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
    /// How it counts; `gcra` by default.
    pub algorithm: Option<AlgorithmName>,
    /// L, units per window. Zero denies everything.
    pub limit: u64,
    /// W, the window in nanoseconds. One day, seven or thirty, where windows are those of a calendar; zero in a
    /// `concurrency` limit, which has none.
    pub per_ns: u64,
    /// B, what may come at once (`gcra`, `token_bucket`); L by default.
    pub burst: Option<u64>,
    /// Q, what may wait (`leaky_bucket`); L by default.
    pub queue: Option<u64>,
    /// n (`sub_windows`); 60 by default.
    pub sub_windows: Option<u64>,
    /// Count one sub-window more, so that no window ever holds more than L (`sub_windows`); true by default.
    pub strict: Option<bool>,
    /// Charge denied attempts too (`fixed_window`, `sliding_log`); false by default.
    pub count_denied: Option<bool>,
    /// D, how old the last request must be, in nanoseconds (`sliding_log`); none by default.
    pub min_interval_ns: Option<u64>,
    /// Where windows begin (`fixed_window`); at the epoch by default.
    pub align: Option<Align>,
    /// How long a lease lasts, in nanoseconds (`concurrency`, which needs it).
    pub ttl_ns: Option<u64>,
    /// What the limit is called in answers, and known by when limits change.
    pub name: Option<String>,
}

/// Longer names than this are a mistake.
const NAME_BYTES_MAX: usize = 128;

impl LimitSpec {
    /// The fields of the long form, as they are written.
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

    /// `limit` per `per_ns` nanoseconds, all else by default.
    pub fn new(limit: u64, per_ns: u64) -> Self {
        Self { limit, per_ns, ..Self::default() }
    }

    /// The limit, if every field is in range and belongs to the algorithm.
    pub fn build(self) -> Result<Limit, LimitError> {
        let algorithm = self.algorithm.unwrap_or_default();
        self.check_options(algorithm)?;
        let rate = Rate::new(self.limit, self.span_ns(algorithm)?)?;
        let count_denied = self.count_denied.unwrap_or(false);
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

    /// An option that the algorithm does not know would be silently without effect.
    fn check_options(&self, algorithm: AlgorithmName) -> Result<(), LimitError> {
        let given = [
            ("burst", self.burst.is_some()),
            ("queue", self.queue.is_some()),
            ("sub_windows", self.sub_windows.is_some()),
            ("strict", self.strict.is_some()),
            ("count_denied", self.count_denied.is_some()),
            ("min_interval", self.min_interval_ns.is_some()),
            ("align", self.align.is_some()),
            ("ttl", self.ttl_ns.is_some()),
        ];
        let stray = given.iter().find(|(option, given)| *given && !algorithm.options().contains(option));
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

    /// The window, or what a concurrency limit has instead.
    fn span_ns(&self, algorithm: AlgorithmName) -> Result<u64, LimitError> {
        match (algorithm, self.ttl_ns) {
            (AlgorithmName::Concurrency, _) if self.per_ns > 0 => Err(LimitError::new(
                "`per` does not go with algorithm concurrency",
                "write ttl instead of per",
            )
            .with_field("per")),
            (AlgorithmName::Concurrency, None) => Err(LimitError::new(
                "a concurrency limit has no ttl",
                "add for example `ttl: 30s`, longer than anything is held",
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
        let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
        let trimmed = !name.is_empty() && name.trim() == name;
        if !trimmed || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
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

/// A burst or a queue: the rate's limit unless given.
fn units(option: &'static str, given: Option<u64>, rate: Rate) -> Result<u64, LimitError> {
    match given {
        None => Ok(rate.limit()),
        Some(units) if (1..=UNITS_MAX).contains(&units) => Ok(units),
        Some(units) => Err(LimitError::new(
            format!("{option} {units} is out of range"),
            format!("it goes from 1 to {UNITS_MAX}"),
        )
        .with_field(option)),
    }
}
