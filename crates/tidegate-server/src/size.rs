//! Parses and prints sizes in bytes: `64MiB`, `500MB`, `1048576`.

use std::fmt;
use std::str::FromStr;

use tidegate::MEMORY_BYTES_MIN;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// Why a text is not a size. The message has a hint.
#[derive(Debug, PartialEq, Eq)]
pub struct ByteSizeError(String);

/// Largest first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

const EXAMPLES: &str = "write for example 64MiB, 1GiB, 500MB or a plain number of bytes";

impl ByteSize {
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Parses `--memory-max`, which has a minimum.
pub fn parse_memory_max(text: &str) -> Result<ByteSize, String> {
    parse_at_least(text, MEMORY_BYTES_MIN)
}

/// Parses a size that has a minimum.
pub fn parse_at_least(text: &str, bytes_min: u64) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error: ByteSizeError| error.to_string())?;
    let min = ByteSize::from_bytes(bytes_min);
    if size < min {
        return Err(format!("{size} is too small (hint: the minimum is {min})"));
    }
    Ok(size)
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = (&text[..digits], text[digits..].trim_start());
        if number.is_empty() {
            return Err(ByteSizeError(format!("`{text}` does not start with a number (hint: {EXAMPLES})")));
        }
        let unit_bytes = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, bytes)) => *bytes,
            None if unit.is_empty() => 1,
            None if unit.starts_with('.') => {
                return Err(ByteSizeError(format!(
                    "`{text}` is not a whole number of its unit (hint: use a smaller unit, 1536MiB for 1.5GiB)"
                )));
            }
            None => return Err(ByteSizeError(format!("unknown unit of size `{unit}` (hint: {EXAMPLES})"))),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_bytes));
        bytes.map(Self).ok_or_else(|| ByteSizeError(format!("`{text}` is too large (hint: {EXAMPLES})")))
    }
}

impl fmt::Display for ByteSize {
    /// Uses the largest unit that divides the size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |(_, bytes): &&(&str, u64)| self.0 >= *bytes && self.0.is_multiple_of(*bytes);
        match UNITS.iter().find(exact) {
            Some((name, bytes)) => write!(f, "{}{name}", self.0 / bytes),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for ByteSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ByteSizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_size() {
        let cases = [
            ("0", 0),
            ("1048576", 1 << 20),
            ("7B", 7),
            ("64KiB", 64 << 10),
            ("64MiB", 64 << 20),
            ("64 MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("1GiB", 1 << 30),
            ("2TiB", 2 << 40),
            ("3KB", 3_000),
            ("500MB", 500_000_000),
            ("1gb", 1_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes() {
        let cases = [
            ("", "`` does not start with a number"),
            ("MiB", "`MiB` does not start with a number"),
            ("-1", "`-1` does not start with a number"),
            ("1.5GiB", "`1.5GiB` is not a whole number of its unit"),
            ("64M", "unknown unit of size `M`"),
            ("64 parsecs", "unknown unit of size `parsecs`"),
            ("18446744073709551616", "`18446744073709551616` is too large"),
            ("16777216TiB", "`16777216TiB` is too large"),
        ];
        for (text, problem) in cases {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.starts_with(problem) && error.contains("(hint: "), "{text}: {error}");
        }
    }

    #[test]
    fn a_size_is_shown_in_its_largest_exact_unit() {
        for text in ["0B", "999B", "1KiB", "1KB", "64MiB", "500MB", "1GiB", "3TB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
    }
}
