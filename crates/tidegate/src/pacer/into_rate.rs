//! Rates, or what can be read as one.

use tidegate_core::Rate;

use super::error::{PacerErrorKind, PacerError};

/// A rate, or the text of one.
pub trait IntoRate {
    /// The rate, if the text is one and it is not zero.
    fn into_rate(self) -> Result<Rate, PacerError>;
}

impl IntoRate for Rate {
    fn into_rate(self) -> Result<Rate, PacerError> {
        if self.limit() == 0 { Err(PacerError(PacerErrorKind::ZeroRate)) } else { Ok(self) }
    }
}

impl IntoRate for &str {
    fn into_rate(self) -> Result<Rate, PacerError> {
        let wrong = |error| PacerError(PacerErrorKind::Rate { text: self.to_owned(), error });
        self.parse::<Rate>().map_err(wrong)?.into_rate()
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
