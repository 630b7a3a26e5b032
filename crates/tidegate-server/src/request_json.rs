//! A request as JSON.
//!
//! ```text
//! {"domain": "api", "attributes": {"user": "42", "ip": "192.0.2.1"}, "cost": 1}
//! {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}], "cost": 1}]}
//! ```
//!
//! Read as it is parsed, so that whatever is wrong with it has its line and column, and so that a request that is too
//! large is refused before it takes any memory.

mod fields;
mod parts;

use std::fmt;

use serde_core::Deserialize as _;
use tidegate::rules::OwnedRequest;

/// The largest request, in bytes of JSON.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The most descriptors of a request.
pub const DESCRIPTORS_MAX: usize = 64;
/// The most entries of a descriptor.
pub const ENTRIES_MAX: usize = 64;

/// A request that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonRequest {
    /// Whose rules apply, if it says so.
    pub domain: Option<String>,
    /// What is asked.
    pub request: OwnedRequest,
}

/// What is wrong with a request, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// With a hint.
    pub message: String,
    /// Where it was noticed; none if it is about the whole.
    pub place: Option<Place>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1; 0 right after the end of a line.
    pub column: usize,
}

/// Reads a request.
pub fn read(json: &[u8]) -> Result<JsonRequest, RequestError> {
    if json.len() > REQUEST_BYTES_MAX {
        let message = format!(
            "the request is larger than {} KiB (hint: is this the right file?)",
            REQUEST_BYTES_MAX >> 10
        );
        return Err(RequestError { message, place: None });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let request = JsonRequest::deserialize(&mut deserializer);
    request.and_then(|request| deserializer.end().map(|()| request)).map_err(|error| RequestError::of(&error))
}

impl RequestError {
    /// The parser puts the place into its text; here it stands beside it.
    pub(crate) fn of(error: &serde_json::Error) -> Self {
        let place = Place { line: error.line(), column: error.column() };
        let said = error.to_string();
        let suffix = format!(" at line {} column {}", place.line, place.column);
        let said = said.strip_suffix(&suffix).unwrap_or(&said);
        let message = match error.is_data() {
            true => said.to_owned(),
            false => format!("this is not JSON: {said} (hint: names and text stand in \"double quotes\")"),
        };
        Self { message, place: (place.line > 0).then_some(place) }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

// Other forms of requests are read in the same way.
pub(crate) use fields::{read as read_field, unknown as unknown_field};

#[cfg(test)]
mod tests;
