//! Reads requests from JSON, one or a batch.
//!
//! ```text
//! {"domain": "api", "attributes": {"user": "42", "ip": "192.0.2.1"}, "cost": 1}
//! {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}], "cost": 1}]}
//! {"requests": [{"domain": "api", "attributes": {"user": "42"}}, ...]}
//! ```
//!
//! Requests are validated while they are parsed. So every error has a line and a column, and a request that is too
//! large is rejected before it takes memory. Text without escapes is borrowed from the JSON.
//!
//! A single request may also be the query of a URL (`query.rs`).

mod bounds;
mod fields;
mod level;
mod overrides;
mod parts;
mod query;
mod request;
mod reset;
mod stored_rules;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;

use serde::de::DeserializeSeed;
use tidegate::rules::OwnedRequest;

use crate::text;
use parts::{BatchSeed, RequestOrBatchSeed, RequestSeed};

pub use bounds::{RequestBounds, request_bounds, set_request_bounds};
pub(crate) use fields::ObjectSeed;
pub use level::read_level;
pub use overrides::{
    BanBody, DeleteBody, OverrideBody, UnbanBody, read_ban, read_delete, read_override, read_unban,
};
pub use query::read_query;
pub use request::{EntryRefs, JsonRequest, Ttl};
pub use reset::{ResetTarget, RuleKey, read_reset};
pub use stored_rules::{RulesChange, read_end, read_push, read_rollback};

/// Maximum number of requests in a batch.
pub const BATCH_REQUESTS_MAX: usize = 1_000;
/// The cost of a request that names none.
const COST_DEFAULT: u64 = 1;
/// Maximum characters of an error. It may quote the request.
const MESSAGE_CHARS_MAX: usize = 512;

/// A request that owns its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedJsonRequest {
    /// The domain whose rules apply, if given.
    pub domain: Option<String>,
    /// The request.
    pub request: OwnedRequest,
}

/// Which fields a request must and may have, besides its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// The domain is optional.
    OptionalDomain,
    /// The domain is required.
    Check,
    /// The domain is required, `ttl` is optional.
    Acquire,
    /// The domain and `token` are required, `ttl` is optional.
    Renew,
    /// The domain and `token` are required.
    Release,
}

/// One request or a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is only one, and a single request must not need an allocation"
)]
pub enum SingleOrBatch<'j> {
    /// A single request.
    Single(JsonRequest<'j>),
    /// A batch, in order.
    Batch(Vec<JsonRequest<'j>>),
}

/// What is wrong with a request, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The problem, with a hint.
    pub message: String,
    /// Where it was noticed; `None` if it is about the whole request.
    pub location: Option<Location>,
}

/// A location in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1; 0 right after the end of a line.
    pub column: usize,
}

/// Reads a request that owns its text. Its domain is optional.
pub fn read_owned(json: &[u8]) -> Result<OwnedJsonRequest, RequestError> {
    read_single(json, RequestForm::OptionalDomain).map(JsonRequest::into_owned)
}

/// Reads a single request.
pub fn read_single(json: &[u8], form: RequestForm) -> Result<JsonRequest<'_>, RequestError> {
    read_with(json, RequestSeed(form))
}

/// Reads a request with a domain, or a batch of such requests. An error in a batch names the request, as in
/// `requests[3]`.
pub fn read_single_or_batch(json: &[u8]) -> Result<SingleOrBatch<'_>, RequestError> {
    let current_index = Cell::new(None);
    let mut request = JsonRequest::default();
    let batch = BatchSeed { current_index: &current_index };
    match read_with(json, RequestOrBatchSeed { batch, request: &mut request }) {
        Ok(None) => Ok(SingleOrBatch::Single(request)),
        Ok(Some(requests)) => Ok(SingleOrBatch::Batch(requests)),
        Err(error) => Err(match current_index.get() {
            Some(index) => RequestError { message: format!("requests[{index}]: {}", error.message), ..error },
            None => error,
        }),
    }
}

fn read_with<'j, S: DeserializeSeed<'j>>(json: &'j [u8], seed: S) -> Result<S::Value, RequestError> {
    let bytes_max = request_bounds().request_bytes_max;
    if json.len() > bytes_max {
        let message =
            format!("the request is larger than {} KiB (hint: is this the right file?)", bytes_max >> 10);
        return Err(RequestError { message, location: None });
    }
    // Validating all text at once is cheaper than validating each string. If it is not valid, the parser says where.
    let value = match str::from_utf8(json) {
        Ok(text) => deserialize(serde_json::Deserializer::from_str(text), seed),
        Err(_) => deserialize(serde_json::Deserializer::from_slice(json), seed),
    };
    value.map_err(|error| RequestError::from_json_error(&error))
}

fn deserialize<'j, R: serde_json::de::Read<'j>, S: DeserializeSeed<'j>>(
    mut json: serde_json::Deserializer<R>,
    seed: S,
) -> serde_json::Result<S::Value> {
    let value = seed.deserialize(&mut json)?;
    json.end().map(|()| value)
}

impl RequestError {
    /// An error about the whole request.
    pub(crate) fn without_position(message: String) -> Self {
        Self { message, location: None }
    }

    /// Moves the location out of the parser's text.
    pub(crate) fn from_json_error(error: &serde_json::Error) -> Self {
        let location = Location { line: error.line(), column: error.column() };
        let text = error.to_string();
        let suffix = format!(" at line {} column {}", location.line, location.column);
        let problem =
            text::printable(text.strip_suffix(&suffix).unwrap_or(&text).as_bytes(), MESSAGE_CHARS_MAX);
        let message = match error.is_data() {
            true => problem,
            false => format!("this is not JSON: {problem} (hint: put names and text in \"double quotes\")"),
        };
        Self { message, location: (location.line > 0).then_some(location) }
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
