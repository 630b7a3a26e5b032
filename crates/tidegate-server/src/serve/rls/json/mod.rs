//! Requests and answers as JSON, by the rules of protojson, as envoyproxy/ratelimit has them at `/json`.
//!
//! ```text
//! {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}
//! {"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,"unit":"MINUTE"},"limitRemaining":4,
//!  "durationUntilReset":"12s"}]}
//! ```
//!
//! Names of fields may be written as in JSON or as in protobuf, enums by name or by number, numbers as text; `null` is as
//! good as nothing. What is not there has its default, and what has its default is not written.

mod read;
mod scalars;
mod write;

#[cfg(test)]
mod tests;

pub use read::JsonRlsRequest;
pub use write::write;

use serde_core::Deserialize as _;

use super::{HitsMode, RlsDescriptor, RlsError, RlsRequest};
use crate::json::{REQUEST_BYTES_MAX, RequestError};
use tidegate::rules::Entry;

/// Reads a request, of which [`JsonRlsRequest::borrowed`] makes one that can be decided.
pub fn read(json: &[u8]) -> Result<JsonRlsRequest, RequestError> {
    if json.len() > REQUEST_BYTES_MAX {
        let message = format!(
            "the request is larger than {} KiB (hint: send fewer descriptors)",
            REQUEST_BYTES_MAX >> 10
        );
        return Err(RequestError { message, location: None });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let request = JsonRlsRequest::deserialize(&mut deserializer);
    request.and_then(|request| deserializer.end().map(|()| request)).map_err(|error| RequestError::from_json_error(&error))
}

impl JsonRlsRequest {
    /// The request, if it has all that one needs.
    pub fn to_request(&self) -> Result<RlsRequest<'_>, RlsError> {
        let mut request = RlsRequest::default();
        request.set_domain(&self.domain);
        request.set_hits_addend(self.hits_addend);
        for descriptor in &self.descriptors {
            for (key, value) in &descriptor.entries {
                request.push_entry(Entry { key, value })?;
            }
            let mut said = RlsDescriptor::default();
            (said.limit, said.hits_addend) = (descriptor.limit, descriptor.hits_addend);
            said.hits = if descriptor.is_negative_hits { HitsMode::Refund } else { HitsMode::Charge };
            request.push_descriptor(said)?;
        }
        request.validate()
    }
}
