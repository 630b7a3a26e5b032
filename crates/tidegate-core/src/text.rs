//! Numbers, durations, words and text as people write them, for every reader and writer of limits and rules.

mod prefix;
mod yaml;

pub use crate::limit::{did_you_mean, parse_duration, parse_number, write_duration};
pub use prefix::truncated;
pub use yaml::{YamlQuoted, YamlText};
