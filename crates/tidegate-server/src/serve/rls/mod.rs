//! Envoy's rate limit service, version 3, as data: what is asked and what is answered, whatever carries it.
//!
//! ```text
//! protobuf (grpc/messages/) or protojson (json/)  ->  RlsRequest     request.rs
//! RlsRequest  ->  the engine  ->  Answer                             decide.rs
//! Answer      ->  RlsResponse, one status for each descriptor        response.rs, marks.rs
//! RlsResponse ->  protobuf or protojson
//! ```

mod decide;
mod error;
pub mod json;
mod marks;
mod request;
mod response;
mod unit;

pub use decide::{RlsDecision, decide};
pub use error::RlsError;
pub use marks::{DECISION_HEADER, DEGRADED_HEADER, DELAY_HEADER, Header, Annotations, DynamicMetadata, RULE_HEADER};
pub use request::{HitsMode, RlsDescriptor, RlsRequest};
pub use response::{RlsCode, CurrentLimit, DURATION_SECONDS_MAX, Overall, RlsResponse, DescriptorStatus, DescriptorStatuses};
pub use unit::RlsUnit;

pub use super::settings::RlsDetails as Details;
