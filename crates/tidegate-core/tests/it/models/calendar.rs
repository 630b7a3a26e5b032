//! "The window is the calendar day, week or month in that time zone": lists all dates and when each begins. A window is
//! the time between two dates on which windows begin.
//!
//! Dates are counted one by one. `zones.txt` says what the clocks show.

use std::collections::HashMap;
use std::sync::LazyLock;

use tidegate_core::algorithm::{CalendarSpec, Weekday};

const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
const NANOS: u128 = 1_000_000_000;
const DAYS_BEFORE_1970: i64 = 31;
/// After the end of representable time, so that the last window has an end.
const LAST_YEAR: i64 = 2556;

/// A calendar, unchecked.
#[derive(Clone, Debug)]
pub struct Calendar {
    pub spec: CalendarSpec,
    /// One day, seven days or thirty days, in nanoseconds: selects day, week or month.
    pub window: u64,
}

/// From its start to its end, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u128,
    pub end: u128,
}

impl Calendar {
    /// The window that contains `at`. A window that began before 1970 begins in 1970 here.
    pub fn window(&self, at: u128) -> Window {
        let days = self.days();
        let begun = days.partition_point(|day| day.begins_ns() <= at);
        let first = days[..begun].iter().rfind(|day| self.begins_with(day));
        let next = days[begun..].iter().find(|day| self.begins_with(day));
        Window { start: first.map_or(0, Day::begins_ns), end: next.map_or(u128::MAX, Day::begins_ns) }
    }

    /// Whether a window begins on that day.
    fn begins_with(&self, day: &Day) -> bool {
        match self.window / (24 * 3600 * 1_000_000_000) {
            1 => true,
            7 => weekday(day.number) == self.spec.week_starts.unwrap_or(Weekday::Monday),
            _ => {
                let first_day = self.spec.day_of_month.map_or(1, |day| i64::try_from(day).expect("up to 31"));
                day.date.day == first_day.min(days_in_month(day.date))
            }
        }
    }

    /// All instants, in seconds, at which the zone's clocks change.
    pub fn changes(&self) -> Vec<i64> {
        let changes = ZONES.get(&self.spec.tz).map_or(&[][..], |zone| &zone.changes[1..]);
        changes.iter().map(|change| change.at).collect()
    }

    /// All instants, in nanoseconds, at which a date begins.
    pub fn midnights(&self) -> impl Iterator<Item = u128> {
        self.days().iter().map(Day::begins_ns)
    }

    fn days(&self) -> &'static [Day] {
        &ZONES.get(&self.spec.tz).unwrap_or_else(|| panic!("{} is not in zones.txt", self.spec.tz)).days
    }
}

/// All zones of `zones.txt`, by name.
static ZONES: LazyLock<HashMap<String, Zone>> =
    LazyLock::new(|| include_str!("zones.txt").split("\nzone ").skip(1).map(Zone::read).collect());

/// All dates in order, from the start of the earliest month that contains 1970-01-01 in some zone.
static DATES: LazyLock<Vec<Date>> = LazyLock::new(|| {
    let first = Date { year: 1969, month: 12, day: 1 };
    let next = |date: &Date| {
        let Date { year, month, day } = *date;
        let next = if day < days_in_month(*date) {
            Date { year, month, day: day + 1 }
        } else if month < 12 {
            Date { year, month: month + 1, day: 1 }
        } else {
            Date { year: year + 1, month: 1, day: 1 }
        };
        (next.year <= LAST_YEAR).then_some(next)
    };
    std::iter::successors(Some(first), next).collect()
});

#[derive(Debug)]
struct Zone {
    /// In order. The first is the state before the list begins.
    changes: Vec<Change>,
    days: Vec<Day>,
}

/// The offset from UTC from an instant on, both in seconds.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: i64,
    offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// A local date.
#[derive(Clone, Copy, Debug)]
struct Day {
    date: Date,
    /// The number of days since 1970-01-01.
    number: i64,
    /// The first instant at which a clock shows this date or a later one, in seconds.
    begins: i64,
}

impl Day {
    fn begins_ns(&self) -> u128 {
        u128::try_from(self.begins).map_or(0, |seconds| seconds * NANOS)
    }
}

impl Zone {
    /// Reads the lines of one zone.
    fn read(text: &str) -> (String, Self) {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let (name, offset) =
            lines.next().and_then(|line| line.split_once(' ')).expect("a name and an offset");
        let mut changes = vec![Change { at: i64::MIN, offset: seconds(offset) }];
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                [date, time, offset] => {
                    let at = number_of(self::date(date)) * DAY + seconds(time);
                    changes.push(Change { at, offset: seconds(offset) });
                }
                ["from", year, "on", which, "sunday", "of", month, time, offset] => {
                    for year in year.parse().expect("a year")..=LAST_YEAR {
                        let at = sunday(which, month, year) * DAY + seconds(time);
                        changes.push(Change { at, offset: seconds(offset) });
                    }
                }
                _ => panic!("not understood: {line}"),
            }
        }
        changes.sort_by_key(|change| change.at);
        let days = days(&changes);
        (name.to_owned(), Self { changes, days })
    }
}

/// When each date begins.
fn days(changes: &[Change]) -> Vec<Day> {
    let mut current = 0;
    (-DAYS_BEFORE_1970..)
        .zip(DATES.iter())
        .map(|(number, date)| {
            let midnight = |change: Change| number * DAY - change.offset;
            // A clock that changes before midnight never shows this midnight.
            while changes.get(current + 1).is_some_and(|next| next.at <= midnight(changes[current])) {
                current += 1;
            }
            Day { date: *date, number, begins: midnight(changes[current]).max(changes[current].at) }
        })
        .collect()
}

/// The number of days from 1970-01-01 to `date`.
fn number_of(date: Date) -> i64 {
    i64::try_from(DATES.partition_point(|other| *other < date)).expect("some hundred thousand")
        - DAYS_BEFORE_1970
}

/// A date like `1976-03-28`.
fn date(text: &str) -> Date {
    let numbers: Vec<i64> = text.split('-').map(|number| number.parse().expect("a number")).collect();
    Date { year: numbers[0], month: numbers[1], day: numbers[2] }
}

/// The number of the `first`, `second` or `last` Sunday of a month.
fn sunday(which: &str, month: &str, year: i64) -> i64 {
    let month = match month {
        "mar" => 3,
        "apr" => 4,
        "oct" => 10,
        "nov" => 11,
        _ => panic!("no change in {month}"),
    };
    let first = Date { year, month, day: 1 };
    let mut sundays = (0..days_in_month(first))
        .map(|day| number_of(first) + day)
        .filter(|number| weekday(*number) == Weekday::Sunday);
    match which {
        "first" => sundays.next(),
        "second" => sundays.nth(1),
        _ => sundays.next_back(),
    }
    .expect("every month has four")
}

fn weekday(number: i64) -> Weekday {
    // 1970-01-01 was a Thursday.
    Weekday::ALL[usize::try_from((number + 3).rem_euclid(7)).expect("0 to 6")]
}

/// Hours and minutes like `01:00` or `-03:30`.
fn seconds(text: &str) -> i64 {
    let (hours, minutes) = text.trim_start_matches(['+', '-']).split_once(':').expect("hours and minutes");
    let minutes = 60 * hours.parse::<i64>().expect("hours") + minutes.parse::<i64>().expect("minutes");
    MINUTE * if text.starts_with('-') { -minutes } else { minutes }
}

fn days_in_month(date: Date) -> i64 {
    let Date { year, month, .. } = date;
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
