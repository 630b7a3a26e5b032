//! Calendar windows: the days, weeks or months that the clocks of a time zone show.
//!
//! Each window begins with a local date: every date, every Sunday, or the 15th of every month. A date begins at the
//! first instant at which the zone's clock shows that date or a later one. This is nearly always midnight. If the clock
//! skips midnight, the date begins at the skip. If midnight comes twice, the date begins at the first one. A date that
//! the zone left out (as Samoa did when it moved across the date line) begins with the next date and is empty. So dates
//! begin in order, whatever a zone did to its clocks, and windows neither overlap nor leave gaps.
//!
//! A window is computed from the zone's rules when it begins, and the state keeps its end. W is nominal (24 hours, 7
//! days, 30 days), and no decision depends on it.
//!
//! The zone data is compiled in. Nothing is read from the machine, so all nodes of a fleet agree.

use std::fmt;

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp as Instant, ToSpan};

use super::{CalendarSpec, CalendarWindow, Weekday};
use crate::Timestamp;

/// Days, weeks or months in a time zone. Made by [`CalendarSpec::build`](super::CalendarSpec::build).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    pub(crate) unit: CalendarUnit,
    pub(crate) zone: TimeZone,
}

/// The unit of the windows, and where in the unit they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalendarUnit {
    Day,
    Week {
        starts: Weekday,
    },
    /// Begins on this day of the month, or on the last day of a shorter month.
    Month {
        day: i8,
    },
}

impl Calendar {
    /// The window that `at` is in.
    pub fn window(&self, at: Timestamp) -> CalendarWindow {
        let shown = self.zone.to_datetime(instant(at)).date();
        let mut first = self.unit.first_date(shown);
        let mut next = self.unit.next_first_date(first);
        let mut end_ns = self.date_start_ns(next);
        // After a clock is set back over midnight, it shows the previous date again although the next date has begun.
        while end_ns <= u128::from(at.as_nanos()) {
            (first, next) = (next, self.unit.next_first_date(next));
            end_ns = self.date_start_ns(next);
        }
        let start_ns = u64::try_from(self.date_start_ns(first)).unwrap_or(u64::MAX);
        CalendarWindow { start: Timestamp::from_nanos(start_ns), end_ns }
    }

    /// The zone's name in the IANA time zone database.
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or_default()
    }

    /// The spec that builds this calendar.
    pub(crate) fn spec(&self) -> CalendarSpec {
        let tz = self.zone_name().to_owned();
        match self.unit {
            CalendarUnit::Day => CalendarSpec { tz, ..CalendarSpec::default() },
            CalendarUnit::Week { starts } => {
                CalendarSpec { tz, week_starts: Some(starts), ..CalendarSpec::default() }
            }
            CalendarUnit::Month { day } => {
                CalendarSpec { tz, day_of_month: u64::try_from(day).ok(), ..CalendarSpec::default() }
            }
        }
    }

    /// The unit of the windows: `day`, `week` or `month`.
    pub(crate) fn unit_name(&self) -> &'static str {
        match self.unit {
            CalendarUnit::Day => "day",
            CalendarUnit::Week { .. } => "week",
            CalendarUnit::Month { .. } => "month",
        }
    }

    /// Identifies the windows of this calendar. The text must not change, because counters are found by its hash.
    pub(crate) fn state_format(&self) -> String {
        let zone = self.zone_name();
        match self.unit {
            CalendarUnit::Day => format!("day in {zone}"),
            CalendarUnit::Week { starts } => format!("week from {} in {zone}", starts.as_str()),
            CalendarUnit::Month { day } => format!("month from {day} in {zone}"),
        }
    }

    /// The first instant at which the zone's clock shows `date` or a later date. The epoch if that was earlier.
    fn date_start_ns(&self, date: Date) -> u128 {
        let midnight = date.to_datetime(Time::midnight());
        let midnight_at = |offset: Offset| offset.to_timestamp(midnight).unwrap_or(Instant::MAX);
        let begins = match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                midnight_at(offset)
            }
            // By the offset after the change, this midnight is before the change. So the change is the next one from
            // there.
            AmbiguousOffset::Gap { after, .. } => {
                let early = midnight_at(after);
                self.zone.following(early).next().map_or(early, |change| change.timestamp())
            }
        };
        u128::try_from(begins.as_nanosecond()).unwrap_or(0)
    }
}

impl CalendarUnit {
    /// The first date of the window that contains `date`.
    fn first_date(self, date: Date) -> Date {
        match self {
            Self::Day => date,
            Self::Week { starts } => {
                let days_in = (7 + date.weekday().to_monday_zero_offset() - starts as i8) % 7;
                date.saturating_sub(days_in.days())
            }
            Self::Month { day } => match day_of_month(date, day) {
                first if first <= date => first,
                _ => day_of_month(date.first_of_month().saturating_sub(1.day()), day),
            },
        }
    }

    /// The first date of the window after the one that begins with `first`.
    fn next_first_date(self, first: Date) -> Date {
        match self {
            Self::Day => first.saturating_add(1.day()),
            Self::Week { .. } => first.saturating_add(7.days()),
            Self::Month { day } => day_of_month(first.last_of_month().saturating_add(1.day()), day),
        }
    }
}

/// The given day in the month of `date`, or the last day of that month.
fn day_of_month(date: Date, day: i8) -> Date {
    let last = date.last_of_month();
    Date::new(last.year(), last.month(), day).unwrap_or(last)
}

/// Converts to jiff's type. It always fits: a [`Timestamp`] ends in 2554, jiff's in 9999.
fn instant(at: Timestamp) -> Instant {
    Instant::from_nanosecond(at.as_nanos().into()).unwrap_or(Instant::MAX)
}

/// As it is written in a limit.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{tz: {}", self.zone_name())?;
        match self.unit {
            CalendarUnit::Week { starts } if starts != Weekday::default() => {
                write!(f, ", week_starts: {}", starts.as_str())?;
            }
            CalendarUnit::Month { day } if day != 1 => write!(f, ", day_of_month: {day}")?,
            _ => {}
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No zone has done so since 1970: the clock goes from 23:30 to 0:30 and back again.
    #[test]
    fn a_day_begins_with_the_change_that_skips_its_midnight() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let zone = TimeZone::posix("STD0DST,J10/23:30,J20/0:30").expect("a time zone");
        let calendar = Calendar { unit: CalendarUnit::Day, zone };
        let start_of = |hours: u64| calendar.window(Timestamp::from_nanos(hours * HOUR_NS)).start.as_nanos();
        // January 11th begins half an hour before midnight UTC, and January 12th a whole hour.
        assert_eq!(start_of(9 * 24 + 12), 9 * 24 * HOUR_NS);
        assert_eq!(start_of(10 * 24 + 12), 10 * 24 * HOUR_NS - HOUR_NS / 2);
        assert_eq!(start_of(11 * 24 + 12), 11 * 24 * HOUR_NS - HOUR_NS);
        // At 0:30 of January 20th the clock shows 23:30 of January 19th again, but the 20th began at its first 0:00.
        assert_eq!(start_of(19 * 24 - 1), 19 * 24 * HOUR_NS - HOUR_NS);
        assert_eq!(start_of(19 * 24 + 12), 19 * 24 * HOUR_NS - HOUR_NS);
        assert_eq!(start_of(20 * 24 + 12), 20 * 24 * HOUR_NS);
    }
}
