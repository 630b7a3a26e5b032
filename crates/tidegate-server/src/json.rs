//! A request as JSON, and several of them.
//!
//! ```text
//! {"domain": "api", "attributes": {"user": "42", "ip": "192.0.2.1"}, "cost": 1}
//! {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}], "cost": 1}]}
//! {"requests": [{"domain": "api", "attributes": {"user": "42"}}, ...]}
//! ```
//!
//! Read as it is parsed, so that whatever is wrong with it has its line and column, and so that a request that is too
//! large is refused before it takes any memory. Text is borrowed from the JSON wherever it has no escapes.

mod fields;
mod level;
mod parts;
mod request;

use std::cell::Cell;
use std::fmt;

use serde_core::de::DeserializeSeed;
use tidegate::rules::OwnedRequest;

pub use level::read_level;
use parts::{BatchSeed, RequestSeed, RequestOrBatchSeed};
pub use request::{EntryRefs, JsonRequest, Ttl};

/// The largest request, in bytes of JSON.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The most requests of a batch.
pub const BATCH_REQUESTS_MAX: usize = 1_000;
/// The most descriptors of a request.
pub const DESCRIPTORS_MAX: usize = 64;
/// The most entries of a descriptor.
pub const ENTRIES_MAX: usize = 64;

/// A request that was read and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJsonRequest {
    /// Whose rules apply, if it says so.
    pub domain: Option<String>,
    /// What is asked.
    pub request: OwnedRequest,
}

/// What a request may, and has to, have in it besides what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// Nothing more. It may leave out its domain.
    OptionalDomain,
    /// A domain.
    Check,
    /// A domain, and `ttl`, if it likes.
    Acquire,
    /// A domain and a `token`; and `ttl`, if it likes.
    Renew,
    /// A domain and a `token`.
    Release,
}

/// One request, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one of it, and one request is not to need an allocation"
)]
pub enum SingleOrBatch<'j> {
    /// One.
    Single(JsonRequest<'j>),
    /// Several, in their order.
    Batch(Vec<JsonRequest<'j>>),
}

/// What is wrong with a request, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// With a hint.
    pub message: String,
    /// Where it was noticed; none if it is about the whole.
    pub location: Option<Location>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1; 0 right after the end of a line.
    pub column: usize,
}

/// Reads a request to keep, whose domain may be left out.
pub fn read_owned(json: &[u8]) -> Result<OwnedJsonRequest, RequestError> {
    read_single(json, RequestForm::OptionalDomain).map(JsonRequest::into_owned)
}

/// Reads a request.
pub fn read_single(json: &[u8], form: RequestForm) -> Result<JsonRequest<'_>, RequestError> {
    read_with(json, RequestSeed(form))
}

/// Reads a request that has a domain, or several that do. What is wrong with one of several is said with its number, as
/// in `requests[3]`.
pub fn read_single_or_batch(json: &[u8]) -> Result<SingleOrBatch<'_>, RequestError> {
    let reading = Cell::new(None);
    let mut request = JsonRequest::default();
    match read_with(json, RequestOrBatchSeed { batch: BatchSeed { current_index: &reading }, request: &mut request }) {
        Ok(None) => Ok(SingleOrBatch::Single(request)),
        Ok(Some(requests)) => Ok(SingleOrBatch::Batch(requests)),
        Err(error) => Err(match reading.get() {
            Some(number) => {
                RequestError { message: format!("requests[{number}]: {}", error.message), ..error }
            }
            None => error,
        }),
    }
}

fn read_with<'j, S: DeserializeSeed<'j>>(json: &'j [u8], seed: S) -> Result<S::Value, RequestError> {
    if json.len() > REQUEST_BYTES_MAX {
        let message = format!(
            "the request is larger than {} KiB (hint: is this the right file?)",
            REQUEST_BYTES_MAX >> 10
        );
        return Err(RequestError { message, location: None });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let read = seed.deserialize(&mut deserializer);
    read.and_then(|read| deserializer.end().map(|()| read)).map_err(|error| RequestError::from_json_error(&error))
}

impl RequestError {
    /// The parser puts the place into its text; here it stands beside it.
    pub(crate) fn from_json_error(error: &serde_json::Error) -> Self {
        let place = Location { line: error.line(), column: error.column() };
        let said = error.to_string();
        let suffix = format!(" at line {} column {}", place.line, place.column);
        let said = said.strip_suffix(&suffix).unwrap_or(&said);
        let message = match error.is_data() {
            true => said.to_owned(),
            false => format!("this is not JSON: {said} (hint: names and text stand in \"double quotes\")"),
        };
        Self { message, location: (place.line > 0).then_some(place) }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Location { line, column }) = self.location {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

// Other forms of requests are read in the same way.
pub(crate) use fields::{read_field as read_field, unknown_field as unknown_field};

#[cfg(test)]
mod tests;
