//! Types that convert to a rate.

use tidegate_core::Rate;

use super::error::{PacerError, PacerErrorKind};

/// A rate, or the text of one.
pub trait IntoRate {
    /// Converts to a rate. Fails if the text is not a rate, or the rate is zero.
    fn into_rate(self) -> Result<Rate, PacerError>;
}

impl IntoRate for Rate {
    fn into_rate(self) -> Result<Rate, PacerError> {
        if self.limit() == 0 { Err(PacerError(PacerErrorKind::ZeroRate)) } else { Ok(self) }
    }
}

impl IntoRate for &str {
    fn into_rate(self) -> Result<Rate, PacerError> {
        let to_error = |error| PacerError(PacerErrorKind::Rate { text: self.to_owned(), error });
        self.parse::<Rate>().map_err(to_error)?.into_rate()
    }
}

impl IntoRate for &String {
    fn into_rate(self) -> Result<Rate, PacerError> {
        self.as_str().into_rate()
    }
}

impl IntoRate for String {
    fn into_rate(self) -> Result<Rate, PacerError> {
        self.as_str().into_rate()
    }
}
