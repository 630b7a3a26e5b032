//! Types that convert to a limit.

use tidegate_core::{Limit, LimitBuilder, LimitSpec};

use super::LimiterError;
use super::error::LimiterErrorKind;

/// A limit, or something that converts to one: text, a spec or a builder.
pub trait IntoLimit {
    /// Converts to a limit.
    fn into_limit(self) -> Result<Limit, LimiterError>;
}

impl IntoLimit for Limit {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        Ok(self)
    }
}

impl IntoLimit for &str {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.parse().map_err(|error| LimiterError(LimiterErrorKind::Limit { text: self.to_owned(), error }))
    }
}

impl IntoLimit for &String {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.as_str().into_limit()
    }
}

impl IntoLimit for String {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.as_str().into_limit()
    }
}

impl IntoLimit for LimitSpec {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        let text = self.to_string();
        self.build().map_err(|error| LimiterError(LimiterErrorKind::Limit { text, error }))
    }
}

impl IntoLimit for LimitBuilder {
    fn into_limit(self) -> Result<Limit, LimiterError> {
        self.spec().clone().into_limit()
    }
}
