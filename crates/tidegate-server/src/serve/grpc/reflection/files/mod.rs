//! The files of all that is spoken here.

mod envoy;
mod grpc;
mod well_known;

use super::schema::FileSchema;

/// All of them.
pub const ALL: &[&FileSchema] = &[
    &envoy::RLS,
    &envoy::RATELIMIT,
    &envoy::BASE,
    &envoy::RATELIMIT_UNIT,
    &well_known::DURATION,
    &well_known::TIMESTAMP,
    &well_known::WRAPPERS,
    &well_known::STRUCT,
    &grpc::HEALTH,
    &grpc::REFLECTION_V1,
    &grpc::REFLECTION_V1ALPHA,
];
