//! Numbers, durations and words as people write them, for every reader of limits.

pub use crate::limit::{did_you_mean, parse_duration, parse_number, write_duration};
