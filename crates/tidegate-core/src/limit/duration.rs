//! Reads and writes durations: `500ms`, `30s`, `2h`, `15 minutes`, `day`.

use super::LimitError;

/// The units with all their names. The first name of each is used for writing.
const UNITS: [(&[&str], u64); 10] = [
    (&["ns", "nanosecond", "nanoseconds"], 1),
    (&["us", "µs", "microsecond", "microseconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60 * 1_000_000_000),
    (&["h", "hour", "hours"], 3_600 * 1_000_000_000),
    (&["d", "day", "days"], 86_400 * 1_000_000_000),
    (&["w", "week", "weeks"], 7 * 86_400 * 1_000_000_000),
    (&["month", "months"], 30 * 86_400 * 1_000_000_000),
    (&["y", "year", "years"], 365 * 86_400 * 1_000_000_000),
];

/// Reads nanoseconds from `text`: `500ms`, `30s`, `2h`, `15 minutes`, `day`. A unit without a number means one.
pub fn parse(text: &str) -> Result<u64, LimitError> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = (&text[..digits_end], text[digits_end..].trim());
    let number = if number.is_empty() { 1 } else { super::parse::number("duration", number)? };
    if unit.is_empty() {
        return Err(LimitError::new(
            format!("duration `{text}` has no unit"),
            "write for example 500ms, 30s, 1m, 2h, 30d or a word like minute",
        ));
    }
    if unit.starts_with(['.', ',']) {
        return Err(LimitError::new(
            format!("duration `{text}` is not a whole number of its unit"),
            "use a smaller unit, for example 1500ms instead of 1.5s",
        ));
    }
    let word = unit.to_lowercase();
    let Some((_, unit_ns)) = UNITS.iter().find(|(names, _)| names.contains(&word.as_str())) else {
        let names: Vec<&str> = UNITS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        return Err(LimitError::unknown("unit of time", unit, &names));
    };
    number.checked_mul(*unit_ns).ok_or_else(|| {
        LimitError::new(format!("duration `{text}` is too long"), "windows go from 1ms to 10 years (3650d)")
    })
}

/// The shortest text that means exactly this many nanoseconds.
pub fn write(nanos: u64) -> String {
    let exact = |(_, unit_ns): &&(&[&str], u64)| nanos.is_multiple_of(*unit_ns);
    // A day is the largest unit whose length is not in doubt.
    let (names, unit_ns) = UNITS[..7].iter().rfind(exact).unwrap_or(&UNITS[0]);
    format!("{}{}", nanos / unit_ns, names[0])
}
