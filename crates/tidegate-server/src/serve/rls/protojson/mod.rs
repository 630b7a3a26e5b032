//! Requests and responses as protojson, as envoyproxy/ratelimit accepts them at `/json`.
//!
//! ```text
//! {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}
//! {"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,"unit":"MINUTE"},"limitRemaining":4,
//!  "durationUntilReset":"12s"}]}
//! ```
//!
//! In requests, field names may be those of JSON or of protobuf, enums may be names or numbers, and numbers may be
//! strings. `null` means absent. Absent fields have their default, and responses omit fields that have their default.

mod read;
mod scalars;
mod write;

#[cfg(test)]
mod tests;

use serde::de::DeserializeSeed as _;
use tidegate::rules::Entry;

use super::{HitsMode, RlsDescriptor, RlsError, RlsRequest};
use crate::json::{RequestError, request_bounds};

use read::{JsonDescriptor, JsonLimit, JsonRlsEntry};

pub use read::JsonRlsRequest;
pub use write::write;

/// Reads a request. [`JsonRlsRequest::to_request`] converts it to one that can be decided.
pub fn read(json: &[u8]) -> Result<JsonRlsRequest, RequestError> {
    let bytes_max = request_bounds().request_bytes_max;
    if json.len() > bytes_max {
        let message =
            format!("the request is larger than {} KiB (hint: send fewer descriptors)", bytes_max >> 10);
        return Err(RequestError { message, location: None });
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let request = read::request_seed().deserialize(&mut deserializer);
    request
        .and_then(|request| deserializer.end().map(|()| request))
        .map_err(|error| RequestError::from_json_error(&error))
}

impl JsonRlsRequest {
    /// Converts it to a request, if it is complete.
    pub fn to_request(&self) -> Result<RlsRequest<'_>, RlsError> {
        let mut request = RlsRequest::default();
        request.set_domain(&self.domain);
        request.set_hits_addend(self.hits_addend.get());
        for JsonDescriptor { entries, limit, hits_addend, is_negative_hits } in &self.descriptors {
            for JsonRlsEntry { key, value } in entries {
                request.push_entry(Entry { key, value })?;
            }
            let mut descriptor = RlsDescriptor::default();
            descriptor.limit = limit.map(JsonLimit::to_request_limit);
            descriptor.hits_addend = hits_addend.map(|hits| hits.0);
            descriptor.hits = if *is_negative_hits { HitsMode::Refund } else { HitsMode::Charge };
            request.push_descriptor(descriptor)?;
        }
        request.validate()
    }
}
