//! Parses one line of a trace: `<timestamp in ns> <key> <cost>`.

use std::fmt;

use tidegate::Timestamp;

use crate::text;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest<'a> {
    pub at: Timestamp,
    /// Any bytes except blanks.
    pub key: &'a [u8],
    pub cost: u64,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineError {
    Blank,
    Comment { text: String },
    TooLong { bytes_max: usize, text: String },
    Missing { what: &'static str, text: String },
    NotANumber { field: NumberField, text: String },
    Negative { field: NumberField, text: String },
    OutOfRange { field: NumberField, text: String },
    TooManyFields { text: String },
}

/// A field that holds a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberField {
    Timestamp,
    Cost,
}

/// How much of an invalid line an error message shows.
const SHOWN_CHARS_MAX: usize = 60;

impl<'a> TraceRequest<'a> {
    /// Parses a line without its line end.
    pub fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        let mut rest = line;
        let Some(at) = next_field(&mut rest) else { return Err(LineError::Blank) };
        if at[0] == b'#' {
            return Err(LineError::Comment { text: shorten(line) });
        }
        let at = parse_number(NumberField::Timestamp, at)?;
        let missing = |what| LineError::Missing { what, text: shorten(line) };
        let key = next_field(&mut rest).ok_or_else(|| missing("the key and the cost are"))?;
        let cost = next_field(&mut rest).ok_or_else(|| missing("the cost is"))?;
        let cost = parse_number(NumberField::Cost, cost)?;
        match next_field(&mut rest) {
            None => Ok(Self { at: Timestamp::from_nanos(at), key, cost }),
            Some(_) => Err(LineError::TooManyFields { text: shorten(line) }),
        }
    }
}

impl LineError {
    /// The error for a line that was not read to its end.
    pub fn too_long(start: &[u8], bytes_max: usize) -> Self {
        Self::TooLong { bytes_max, text: shorten(start) }
    }
}

/// Takes the next field off `rest`, or `None` if only blanks are left.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let start = rest.iter().position(|byte| !is_blank(*byte))?;
    let field = &rest[start..];
    let end = field.iter().position(|byte| is_blank(*byte)).unwrap_or(field.len());
    *rest = &field[end..];
    Some(&field[..end])
}

/// Whether a byte separates fields.
pub fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn parse_number(field: NumberField, text: &[u8]) -> Result<u64, LineError> {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let value = text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    });
    value.ok_or_else(|| match text {
        [b'-', digits @ ..] if !digits.is_empty() && digits.iter().all(digit) => {
            LineError::Negative { field, text: shorten(text) }
        }
        digits if digits.iter().all(digit) => LineError::OutOfRange { field, text: shorten(text) },
        _ => LineError::NotANumber { field, text: shorten(text) },
    })
}

fn shorten(text: &[u8]) -> String {
    text::printable(text, SHOWN_CHARS_MAX)
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORMAT: &str =
            "a line is `<timestamp in ns> <key> <cost>`, like `1700000000000000000 user:7 1`";
        match self {
            Self::Blank => f.write_str("the line is blank (hint: blank lines are allowed only at the end)"),
            Self::Comment { text } => {
                write!(f, "`{text}` is a comment (hint: remove comments, for example with grep -v '^#')")
            }
            Self::TooLong { bytes_max, text } => {
                write!(f, "`{text}` is longer than {bytes_max} bytes (hint: {FORMAT})")
            }
            Self::Missing { what, text } => write!(f, "{what} missing in `{text}` (hint: {FORMAT})"),
            Self::NotANumber { field, text } => {
                write!(f, "{field} `{text}` is not a whole number (hint: {})", field.hint())
            }
            Self::Negative { field, text } => {
                write!(f, "{field} `{text}` is negative (hint: {})", field.hint())
            }
            Self::OutOfRange { field, text } => {
                write!(f, "{field} `{text}` is out of range (hint: the maximum is {})", u64::MAX)
            }
            Self::TooManyFields { text } => {
                write!(f, "more than three fields in `{text}` (hint: {FORMAT}; a key cannot contain blanks)")
            }
        }
    }
}

impl NumberField {
    fn hint(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamps are whole nanoseconds, 0 or more: multiply seconds by 1000000000",
            Self::Cost => "costs are whole numbers, 0 or more; most requests cost 1",
        }
    }
}

impl fmt::Display for NumberField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timestamp => "timestamp",
            Self::Cost => "cost",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_ns: u64, key: &[u8], cost: u64) -> Result<TraceRequest<'_>, LineError> {
        Ok(TraceRequest { at: Timestamp::from_nanos(at_ns), key, cost })
    }

    #[test]
    fn good_lines() {
        assert_eq!(TraceRequest::parse(b"5 key 1"), request(5, b"key", 1));
        assert_eq!(TraceRequest::parse(b"  5\tkey   1 \t"), request(5, b"key", 1));
        assert_eq!(TraceRequest::parse(b"0 -1 0"), request(0, b"-1", 0));
        assert_eq!(TraceRequest::parse(b"007 # 01"), request(7, b"#", 1));
        assert_eq!(TraceRequest::parse(b"1 \xff\x00 1"), request(1, b"\xff\x00", 1));
        let largest = b"18446744073709551615 k 18446744073709551615";
        assert_eq!(TraceRequest::parse(largest), request(u64::MAX, b"k", u64::MAX));
    }

    #[test]
    fn bad_lines() {
        let text = |text: &str| text.to_owned();
        let (timestamp, cost) = (NumberField::Timestamp, NumberField::Cost);
        let cases: [(&str, LineError); 15] = [
            ("", LineError::Blank),
            (" \t", LineError::Blank),
            ("# time key cost", LineError::Comment { text: text("# time key cost") }),
            ("5", LineError::Missing { what: "the key and the cost are", text: text("5") }),
            ("5 k ", LineError::Missing { what: "the cost is", text: text("5 k ") }),
            ("5 k 1 1", LineError::TooManyFields { text: text("5 k 1 1") }),
            ("x k 1", LineError::NotANumber { field: timestamp, text: text("x") }),
            ("1.5 k 1", LineError::NotANumber { field: timestamp, text: text("1.5") }),
            ("+1 k 1", LineError::NotANumber { field: timestamp, text: text("+1") }),
            ("- k 1", LineError::NotANumber { field: timestamp, text: text("-") }),
            ("1 k one", LineError::NotANumber { field: cost, text: text("one") }),
            ("1 k ١", LineError::NotANumber { field: cost, text: text("١") }),
            ("-1 k 1", LineError::Negative { field: timestamp, text: text("-1") }),
            ("1 k -0", LineError::Negative { field: cost, text: text("-0") }),
            (
                "18446744073709551616 k 1",
                LineError::OutOfRange { field: timestamp, text: text("18446744073709551616") },
            ),
        ];
        for (line, error) in cases {
            assert_eq!(TraceRequest::parse(line.as_bytes()), Err(error), "{line}");
        }
    }
}
