//! The most that a limit admits for one key, whatever requests come.
//!
//! Each algorithm computes its own worst case. The tests attack the models of the algorithms: no attack admits more,
//! and one of them admits exactly this.

use std::fmt;

use crate::text::write_duration;

/// The most units that a limit admits for one key, whatever requests come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorstCase {
    /// The most units.
    pub units: u64,
    /// The span of time that they fall into.
    pub scope: WorstCaseScope,
    /// How they come, if it is surprising.
    pub(crate) detail: WorstCaseDetail,
}

/// Where the units of a worst case are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorstCaseScope {
    /// In a window that begins at any instant. It includes its start and excludes its end.
    AnyWindow {
        /// Its length in nanoseconds.
        window_ns: u64,
    },
    /// Within moments, around the end of a day, a week or a month.
    CalendarEdge {
        /// `day`, `week` or `month`.
        unit: &'static str,
    },
    /// Held at the same time.
    InFlight,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorstCaseDetail {
    None,
    /// Some at once, and the last this long after them.
    Burst {
        at_once: u64,
        last_after_ns: u64,
    },
    /// The number of units that leave.
    Leave(u64),
    /// In each window of the limit.
    EachWindow(u64),
    /// In the long run.
    LongRun(u64),
    /// In any span that is shorter.
    Shorter {
        units: u64,
        span_ns: u64,
    },
    /// Any two are this far apart.
    Apart {
        interval_ns: u64,
    },
}

impl WorstCase {
    pub(crate) fn in_any_window(window_ns: u64, units: u64) -> Self {
        Self { units, scope: WorstCaseScope::AnyWindow { window_ns }, detail: WorstCaseDetail::None }
    }

    pub(crate) fn with_detail(self, detail: WorstCaseDetail) -> Self {
        Self { detail, ..self }
    }
}

/// `199 in any 1m: 100 at once and 99 more within 59.4s`.
impl fmt::Display for WorstCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units;
        if units == 0 {
            return f.write_str("nothing");
        }
        let window = match self.scope {
            WorstCaseScope::AnyWindow { window_ns } => write_duration(window_ns),
            WorstCaseScope::CalendarEdge { unit } => unit.to_owned(),
            WorstCaseScope::InFlight => return write!(f, "{units} in flight"),
        };
        match self.scope {
            WorstCaseScope::CalendarEdge { unit } => write!(f, "{units} around the end of a {unit}")?,
            _ => write!(f, "{units} in any {window}")?,
        }
        match &self.detail {
            WorstCaseDetail::None => Ok(()),
            WorstCaseDetail::Burst { at_once, .. } if *at_once == units => f.write_str(", all at once"),
            WorstCaseDetail::Burst { at_once, last_after_ns } => {
                let (more, within) = (units - at_once, RoundedUp(*last_after_ns));
                write!(f, ": {at_once} at once and {more} more within {within}")
            }
            WorstCaseDetail::Leave(leave) => write!(f, ", of which {leave} leave"),
            WorstCaseDetail::EachWindow(each) => match self.scope {
                WorstCaseScope::CalendarEdge { unit } => write!(f, "; {each} in each {unit}"),
                _ => write!(f, ", around the end of a window; {each} in each window"),
            },
            WorstCaseDetail::LongRun(units) => write!(f, "; {units} per {window} in the long run"),
            WorstCaseDetail::Shorter { units, span_ns } => {
                write!(f, "; {units} in any {}", RoundedUp(*span_ns))
            }
            WorstCaseDetail::Apart { interval_ns } => {
                write!(f, ", at least {} apart", write_duration(*interval_ns))
            }
        }
    }
}

/// A time in its largest unit, rounded up to a tenth: `59.4s`.
struct RoundedUp(u64);

impl fmt::Display for RoundedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let (unit_ns, unit) = UNITS.into_iter().find(|(unit_ns, _)| self.0 >= *unit_ns).unwrap_or((1, "ns"));
        let tenths = (u128::from(self.0) * 10).div_ceil(u128::from(unit_ns));
        match (tenths / 10, tenths % 10) {
            (whole, 0) => write!(f, "{whole}{unit}"),
            (whole, tenth) => write!(f, "{whole}.{tenth}{unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Limit;

    /// The rows of the table in `docs/rules.md`, and more.
    #[test]
    fn as_text() {
        for (limit, text) in [
            ("100 per minute", "199 in any 1m: 100 at once and 99 more within 59.4s"),
            ("100 per minute burst 20", "119 in any 1m: 20 at once and 99 more within 59.4s"),
            ("100 per minute burst 1", "100 in any 1m: 1 at once and 99 more within 59.4s"),
            ("1 per hour", "1 in any 1h, all at once"),
            ("1000 per day", "1999 in any 1d: 1000 at once and 999 more within 24h"),
            ("deny", "nothing"),
            ("{algorithm: sliding_log, limit: 5, per: minute}", "5 in any 1m"),
            (
                "{algorithm: sliding_log, limit: 5, per: minute, min_interval: 10s}",
                "5 in any 1m, at least 10s apart",
            ),
            ("{algorithm: sub_windows, limit: 100, per: minute}", "100 in any 1m"),
            (
                "{algorithm: sub_windows, limit: 100, per: minute, strict: false}",
                "200 in any 1m; 100 in any 59s",
            ),
            (
                "{algorithm: sliding_window, limit: 100, per: minute}",
                "199 in any 1m; 100 per 1m in the long run",
            ),
            (
                "{algorithm: fixed_window, limit: 100, per: hour}",
                "200 in any 1h, around the end of a window; 100 in each window",
            ),
            (
                "{algorithm: fixed_window, limit: 100, per: hour, align: first_hit}",
                "199 in any 1h, around the end of a window; 100 in each window",
            ),
            (
                "{algorithm: leaky_bucket, limit: 100, per: minute, queue: 50}",
                "150 in any 1m, of which 100 leave",
            ),
            ("{algorithm: concurrency, limit: 3, ttl: 5m}", "3 in flight"),
        ] {
            assert_eq!(limit.parse::<Limit>().unwrap().worst_case().to_string(), text, "{limit}");
        }
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn of_a_calendar() {
        let limit = "{algorithm: fixed_window, limit: 1000, per: month, align: {tz: Europe/Paris}}";
        let text = limit.parse::<Limit>().unwrap().worst_case().to_string();
        assert_eq!(text, "2000 around the end of a month; 1000 in each month");
    }
}
