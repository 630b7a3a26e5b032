//! Limits: what they are and how they are written.
//!
//! A [`LimitSpec`] has the fields of a limit as they are written. Building it checks them and makes a [`Limit`].

mod algorithm_name;
mod as_spec;
#[cfg(feature = "calendar")]
mod build_calendar;
mod builder;
mod calendar_text;
mod checked_limit;
mod duration;
mod error;
mod limit_text;
mod parse;
mod rate_text;
mod release_rate;
mod resize;
mod spec;
mod spec_text;
mod suggest;

pub use algorithm_name::AlgorithmName;
pub use builder::LimitBuilder;
pub use checked_limit::Limit;
pub use duration::{parse as parse_duration, write as write_duration};
pub use error::{LimitError, did_you_mean};
pub use parse::{align_hint, number as parse_number};
pub use release_rate::ReleaseRate;
pub use spec::LimitSpec;
