//! Patterns: what the value of an attribute has to be.
//!
//! ```text
//! value_pattern                 a pattern of any kind
//! value_set, wildcard, regex    patterns for any value
//! path, path_set, net, net_set  patterns for paths and addresses
//! case                          case sensitivity
//! display                       patterns as rule files write them
//! error                         why text is not a pattern
//! ```
//!
//! Only checked constructors make patterns from text. Each takes time and memory in proportion to the length of the
//! text, whatever the text is.

mod case;
mod display;
mod error;
mod net;
mod net_set;
mod path;
mod path_set;
mod regex;
mod value_pattern;
mod value_set;
mod wildcard;

pub use case::CaseSensitivity;
pub use error::PatternError;
pub use net::Net;
pub use net_set::NetSet;
pub use path::{PATH_SEGMENTS_MAX, PathPattern, Segment, path_segment, path_without_query};
pub use path_set::PathSet;
pub use regex::{REGEX_COMPILED_BYTES_MAX, REGEX_NESTING_MAX, REGEX_VALUE_BYTES_MAX, Regex};
pub use value_pattern::{PATTERN_TEXT_BYTES_MAX, Pattern, SET_ENTRIES_MAX};
pub use value_set::ValueSet;
pub use wildcard::Wildcard;

pub(super) use display::Shortened;
pub(super) use net::network_address;
pub(super) use path::path_segments;
pub(super) use regex::is_too_long;
