//! Reads and writes a rate without options: `5/s`, `100 per minute`.

use std::fmt;
use std::str::FromStr;

use super::{LimitError, LimitSpec, duration, parse};
use crate::Rate;

/// Reads the same text as a limit, but refuses options.
///
/// ```
/// use tidegate_core::Rate;
///
/// let rate: Rate = "100 per minute".parse()?;
/// assert_eq!(rate.limit(), 100);
/// assert_eq!(rate.to_string(), "100 per 1m");
/// assert!("100 per minute burst 20".parse::<Rate>().is_err());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
impl FromStr for Rate {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let spec = parse::spec(text)?;
        if spec != LimitSpec::new(spec.limit, spec.per_ns) {
            let option = if spec.burst.is_some() { "burst" } else { "option" };
            return Err(LimitError::new(
                format!("`{}` is more than a rate", text.trim()),
                format!("leave the {option} out: a rate is only how many per how long, like `5/s`"),
            ));
        }
        Self::new(spec.limit, spec.per_ns)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.limit(), duration::write(self.window_ns()))
    }
}
