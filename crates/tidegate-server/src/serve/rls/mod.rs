//! Envoy's rate limit service, version 3, independent of its encoding.
//!
//! ```text
//! protobuf (grpc/messages/) or protojson/    ->  RlsRequest       request.rs
//! RlsRequest  ->  the engine  ->  Answer                          decide.rs
//! Answer      ->  RlsResponse, one status for each descriptor     response.rs, annotations.rs
//! RlsResponse ->  protobuf or protojson
//! ```

mod annotations;
mod decide;
mod error;
pub mod protojson;
mod request;
mod response;
mod unit;

pub use super::settings::RlsDetails as Details;
pub use annotations::{
    Annotations, DECISION_HEADER, DEGRADED_HEADER, DELAY_HEADER, DynamicMetadata, Header, RULE_HEADER,
    UNREPLICATED_HEADER,
};
pub use decide::{RlsDecision, decide};
pub use error::{DecideError, RlsError};
pub use request::{HitsMode, RlsDescriptor, RlsRequest};
pub use response::{
    CurrentLimit, DURATION_SECONDS_MAX, DescriptorStatus, DescriptorStatuses, Overall, RlsCode, RlsResponse,
};
pub use unit::RlsUnit;
