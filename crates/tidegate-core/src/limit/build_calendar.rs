//! Builds a calendar from its spec, and reports what is wrong with the spec.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::did_you_mean;
use super::{LimitError, duration};
use crate::algorithm::{Calendar, CalendarSpec, CalendarUnit};

const DAY_NS: u64 = 86_400 * 1_000_000_000;
const WEEK_NS: u64 = 7 * DAY_NS;
const MONTH_NS: u64 = 30 * DAY_NS;
const DAY_OF_MONTH_MAX: u64 = 31;

impl CalendarSpec {
    /// The calendar whose windows are days, weeks or months: `per_ns` must be one, seven or thirty days.
    pub fn build(&self, per_ns: u64) -> Result<Calendar, LimitError> {
        let unit = match per_ns {
            DAY_NS => CalendarUnit::Day,
            WEEK_NS => CalendarUnit::Week { starts: self.week_starts.unwrap_or_default() },
            MONTH_NS => CalendarUnit::Month { day: self.checked_day_of_month()? },
            _ => {
                return Err(LimitError::new(
                    format!("a calendar has no windows of {}", duration::write(per_ns)),
                    "write `per: day`, `per: week` or `per: month`, or leave `align` out",
                )
                .with_field("per"));
            }
        };
        let calendar = Calendar { unit, zone: zone(&self.tz)? };
        for (option, is_set, unit) in [
            ("week_starts", self.week_starts.is_some(), "week"),
            ("day_of_month", self.day_of_month.is_some(), "month"),
        ] {
            if is_set && unit != calendar.unit_name() {
                return Err(LimitError::new(
                    format!("`{option}` does not go with per: {}", calendar.unit_name()),
                    format!("leave it out, or write `per: {unit}`"),
                )
                .with_field("align"));
            }
        }
        Ok(calendar)
    }

    fn checked_day_of_month(&self) -> Result<i8, LimitError> {
        let day = self.day_of_month.unwrap_or(1);
        match i8::try_from(day) {
            Ok(checked) if (1..=DAY_OF_MONTH_MAX).contains(&day) => Ok(checked),
            _ => Err(LimitError::new(
                format!("day_of_month {day} is out of range"),
                format!(
                    "it goes from 1 to {DAY_OF_MONTH_MAX}; a month that is too short begins with its last day"
                ),
            )
            .with_field("align")),
        }
    }
}

/// The time zone of that name, in upper or lower case.
fn zone(name: &str) -> Result<TimeZone, LimitError> {
    let zones = TimeZoneDatabase::bundled();
    match zones.get(name) {
        // jiff has a zone for "unknown", which has no name.
        Ok(zone) if zone.iana_name().is_some() => Ok(zone),
        _ => {
            let names: Vec<String> = zones.available().map(|zone| zone.as_str().to_owned()).collect();
            Err(unknown_zone(name, &names.iter().map(String::as_str).collect::<Vec<_>>()))
        }
    }
}

fn unknown_zone(name: &str, known_names: &[&str]) -> LimitError {
    let city = name.replace(' ', "_");
    let has_that_city =
        |zone: &&&str| zone.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city));
    let similar = known_names.iter().find(has_that_city).copied().unwrap_or(name);
    let hint = did_you_mean(similar, known_names).unwrap_or_else(|| {
        "time zones have names like `Europe/Paris`, `America/New_York` or `UTC`".to_owned()
    });
    LimitError::new(format!("unknown time zone `{name}`"), hint).with_field("align")
}
