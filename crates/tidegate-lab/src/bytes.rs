//! Sizes in bytes, as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `256MiB`, `1GiB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits.trim(), *unit)))
            .unwrap_or((text, 1));
        let number: Option<u64> = digits.parse().ok();
        match number.and_then(|number| number.checked_mul(unit)) {
            Some(bytes) => Ok(Self(bytes)),
            None => Err(format!("`{text}` is not a size (hint: write for example 256MiB or 1GiB)")),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, unit)| self.0 >= *unit) {
            Some((name, unit)) if self.0.is_multiple_of(*unit) => write!(f, "{} {name}", self.0 / unit),
            Some((name, unit)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!("256MiB".parse(), Ok(Bytes(256 << 20)));
        assert_eq!("1 GiB".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert_eq!(Bytes(3 << 19).to_string(), "1.5 MiB");
        assert!("much".parse::<Bytes>().is_err());
        assert!("99999999999GiB".parse::<Bytes>().is_err());
    }
}
