//! Lengths of arrays and bulk strings, as Redis reads them.

use crate::serve::resp::protocol_error::ProtocolError;

/// Maximum digits of a length, including the sign.
const LENGTH_DIGITS_MAX: usize = 20;

pub(super) struct ParsedLength {
    pub number: i64,
    /// Index after the length's line.
    pub end: usize,
}

/// The errors of a length.
#[derive(Clone, Copy)]
pub(crate) struct LengthErrors {
    /// It has too many digits.
    pub too_long: ProtocolError,
    /// It is not a number.
    pub invalid: ProtocolError,
}

impl ParsedLength {
    /// Reads a number up to the end of its line; `None` if the line is incomplete.
    #[inline]
    pub fn read(bytes: &[u8], start: usize, errors: LengthErrors) -> Result<Option<Self>, ProtocolError> {
        // Most lengths have one or two digits.
        match bytes.get(start..).unwrap_or_default() {
            [digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
                Ok(Some(Self { number: i64::from(digit - b'0'), end: start + 3 }))
            }
            [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
                let number = i64::from(ten - b'0') * 10 + i64::from(one - b'0');
                Ok(Some(Self { number, end: start + 4 }))
            }
            rest => Self::read_uncommon(rest, start, &errors),
        }
    }

    /// Separate, so that the common cases are inlined.
    #[inline(never)]
    fn read_uncommon(
        rest: &[u8],
        start: usize,
        errors: &LengthErrors,
    ) -> Result<Option<Self>, ProtocolError> {
        let Some(digits) = rest.iter().take(LENGTH_DIGITS_MAX + 1).position(|byte| *byte == b'\r') else {
            return if rest.len() > LENGTH_DIGITS_MAX { Err(errors.too_long) } else { Ok(None) };
        };
        match rest.get(digits + 1) {
            None => Ok(None),
            Some(b'\n') => {
                let number = parse_number(&rest[..digits]).ok_or(errors.invalid)?;
                Ok(Some(Self { number, end: start + digits + 2 }))
            }
            Some(_) => Err(errors.invalid),
        }
    }
}

/// A number as Redis reads it: no plus, no leading zeros, no minus zero.
#[inline]
fn parse_number(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0', _, ..] => return None,
        [b'0'] if negative => return None,
        _ => {}
    }
    let mut number: i64 = 0;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(i64::from(value))?;
    }
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_redis_reads_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-", None),
            ("", None),
            ("00", None),
            ("-0", None),
            ("1 ", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), expected, "{text}");
        }
    }
}
