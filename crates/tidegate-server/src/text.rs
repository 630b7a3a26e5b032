//! Formats text and numbers for people.

use std::fmt::Write;
use std::time::Duration;

/// At most `chars_max` characters of untrusted `bytes`, safe to print on a terminal: invalid UTF-8 is replaced,
/// control characters are escaped, and a cut is marked with `…`.
pub fn printable(bytes: &[u8], chars_max: usize) -> String {
    // A character takes at most four bytes, so later bytes are never shown and need no decoding.
    let enough = bytes.len().min(4 * (chars_max + 1));
    let decoded = String::from_utf8_lossy(&bytes[..enough]);
    let mut text = String::new();
    for (count, c) in decoded.chars().enumerate() {
        if count == chars_max {
            text.push('…');
            break;
        }
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

/// Decodes percent-encoding, such as `%2F`. A `%` without two hexadecimal digits stays.
pub fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let digit = |index: usize| more.get(index).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

/// `1,234,567`
pub fn grouped_number(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A part of a whole.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub part: u128,
    pub whole: u128,
}

/// `12.34%`, or `-` if the whole is 0.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn percent(Share { part, whole }: Share) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.2}%", part as f64 * 100.0 / whole as f64),
    }
}

/// `2d 3h 4m 5.5s`
pub fn duration(duration_ns: u64) -> String {
    const SECOND_NS: u64 = 1_000_000_000;
    const UNITS: [(&str, u64); 3] =
        [("d", 86_400 * SECOND_NS), ("h", 3_600 * SECOND_NS), ("m", 60 * SECOND_NS)];
    let mut left_ns = duration_ns;
    let mut text = String::new();
    for (name, unit_ns) in UNITS {
        if left_ns >= unit_ns {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{name} ", left_ns / unit_ns);
            left_ns %= unit_ns;
        }
    }
    if left_ns > 0 || text.is_empty() {
        let _ = write!(text, "{:?}", Duration::from_nanos(left_ns));
    }
    text.trim_end().to_owned()
}

/// Splits a message into the problem and the hint, if it has one.
pub fn split_hint(message: &str) -> (&str, Option<&str>) {
    match message.strip_suffix(')').and_then(|message| message.rsplit_once(" (hint: ")) {
        Some((problem, hint)) => (problem, Some(hint)),
        None => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shortened_and_escaped() {
        assert_eq!(printable(b"user:7", 6), "user:7");
        assert_eq!(printable(b"user:77", 6), "user:7…");
        assert_eq!(printable("größe".as_bytes(), 3), "grö…");
        assert_eq!(printable(b"\x1b[31m\xff", 20), "\\u{1b}[31m\u{fffd}");
        assert_eq!(printable(&[b'a'; 100_000], 2), "aa…");
    }

    #[test]
    fn numbers_are_grouped() {
        let numbers = [0u64, 12, 999, 1_000, 123_456, 1_234_567].map(grouped_number);
        assert_eq!(numbers, ["0", "12", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(percent(Share { part: 1, whole: 3 }), "33.33%");
        assert_eq!(percent(Share { part: 0, whole: 0 }), "-");
    }

    #[test]
    fn durations_use_common_units() {
        let cases = [
            (0, "0ns"),
            (1_500, "1.5µs"),
            (1_000_000_000, "1s"),
            (60_000_000_000, "1m"),
            (46_439_000_000_000, "12h 53m 59s"),
            (176_405_500_000_000, "2d 1h 5.5s"),
        ];
        for (duration_ns, text) in cases {
            assert_eq!(duration(duration_ns), text);
        }
    }

    #[test]
    fn splits_off_the_last_hint() {
        let cases = [
            ("it is empty (hint: leave it out)", ("it is empty", Some("leave it out"))),
            ("it is empty", ("it is empty", None)),
            ("`(hint: x)` is wrong (hint: as in f(x))", ("`(hint: x)` is wrong", Some("as in f(x)"))),
            ("(hint: leave it out)", ("(hint: leave it out)", None)),
            ("", ("", None)),
        ];
        for (message, parts) in cases {
            assert_eq!(split_hint(message), parts);
        }
    }
}
