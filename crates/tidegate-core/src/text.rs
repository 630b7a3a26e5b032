//! Reads and writes numbers, durations, words and text in the form that people write.

use std::fmt::{self, Write as _};

use crate::Timestamp;
pub use crate::limit::{align_hint, did_you_mean, parse_duration, parse_number, write_duration};

/// The longest prefix of `text` that has at most `bytes_max` bytes and ends between two characters.
///
/// ```
/// use tidegate_core::text::truncated;
///
/// assert_eq!(truncated("naïve", 3), "na");
/// assert_eq!(truncated("naïve", 4), "naï");
/// assert_eq!(truncated("naïve", 9), "naïve");
/// ```
pub fn truncated(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// An instant as a date in UTC, with as many digits of the second as it needs: none, 3, 6 or 9.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::text::write_date;
///
/// assert_eq!(write_date(Timestamp::from_nanos(1_700_000_000_000_000_000)), "2023-11-14T22:13:20Z");
/// assert_eq!(write_date(Timestamp::from_nanos(951_782_399_250_000_000)), "2000-02-28T23:59:59.250Z");
/// ```
pub fn write_date(at: Timestamp) -> String {
    const SECOND_NS: u64 = 1_000_000_000;
    let (seconds, nanos) = (at.as_nanos() / SECOND_NS, at.as_nanos() % SECOND_NS);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that a leap day is the last day of its year. Day 0 is 0000-03-01.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let fraction = match nanos {
        0 => String::new(),
        _ if nanos % 1_000_000 == 0 => format!(".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => format!(".{:06}", nanos / 1_000),
        _ => format!(".{nanos:09}"),
    };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The text with each character that is not `plain` as the percent-encoded bytes of its UTF-8.
///
/// ```
/// use tidegate_core::text::percent_encode;
///
/// assert_eq!(percent_encode("größe 1", |c| c.is_ascii()), "gr%C3%B6%C3%9Fe 1");
/// ```
pub fn percent_encode(text: &str, plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if plain(c) {
            encoded.push(c);
        } else {
            // Writing to a string does not fail.
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| _ = write!(encoded, "%{byte:02X}"));
        }
    }
    encoded
}

/// The text such that it can stand between quotes in a header: quotes, backslashes, control characters and `%` are
/// percent-encoded. Different texts stay different.
///
/// ```
/// use tidegate_core::text::escape_quoted;
///
/// assert_eq!(escape_quoted("a \"b\"\n"), "a %22b%22%0A");
/// assert_eq!(escape_quoted("a %22"), "a %2522");
/// ```
pub fn escape_quoted(text: &str) -> String {
    percent_encode(text, |c| !matches!(c, '"' | '\\' | '%') && !c.is_control())
}

/// Text as a YAML scalar that every reader takes for this text: YAML 1.1 and 1.2, flow and block.
#[derive(Clone, Copy, Debug)]
pub struct YamlText<'a>(pub &'a str);

/// Text as a YAML scalar in double quotes.
#[derive(Clone, Copy, Debug)]
pub struct YamlQuoted<'a>(pub &'a str);

impl fmt::Display for YamlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) { f.write_str(self.0) } else { YamlQuoted(self.0).fmt(f) }
    }
}

impl fmt::Display for YamlQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.0.chars().try_for_each(|c| write_escaped(c, f))?;
        f.write_char('"')
    }
}

/// Words that some YAML readers do not take for text.
const WORDS: [&str; 14] = [
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "null",
    "nan",
    "inf",
    "infinity",
    "undefined",
    "none",
];

/// Text that begins with a digit is not plain: it may be read as a number.
fn is_plain(text: &str) -> bool {
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let is_plain_throughout = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    starts_plain && is_plain_throughout && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Writes a character of a double-quoted scalar.
fn write_escaped(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match c {
        '"' | '\\' => write!(f, "\\{c}"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        c if is_printable(c) => f.write_char(c),
        c if u32::from(c) <= 0xffff => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Whether YAML allows the character unescaped and people can see it and recognise it.
fn is_printable(c: char) -> bool {
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe;
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fdd0}'..='\u{fdef}' | '\u{a0}');
    !c.is_control() && !noncharacter && !invisible
}
