//! Reads and writes limits.

use std::fmt;
use std::str::FromStr;

use super::{Limit, LimitError, duration, parse};
use crate::Algorithm;
use crate::algorithm::{
    Concurrency, CountDenied, Edges, PackedAlgorithm, SlidingWindow, SubWindows, TokenBucket,
    UsageLogAlgorithm,
};

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        parse::spec(text)?.build()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate();
        let span = match self.calendar() {
            Some(calendar) => calendar.unit_name().to_owned(),
            None => duration::write(rate.window_ns()),
        };
        let span_name = if let Algorithm::Leases(_) = self.algorithm { "ttl" } else { "per" };
        let name = self.algorithm_name();
        write!(f, "{{algorithm: {name}, limit: {}, {span_name}: {span}", rate.limit())?;
        match &self.algorithm {
            Algorithm::Packed(packed) => match packed {
                PackedAlgorithm::Gcra(algorithm) | PackedAlgorithm::TokenBucket(TokenBucket(algorithm)) => {
                    if algorithm.burst() != rate.limit() {
                        write!(f, ", burst: {}", algorithm.burst())?;
                    }
                }
                PackedAlgorithm::LeakyBucket(algorithm) => {
                    if algorithm.queue() != rate.limit() {
                        write!(f, ", queue: {}", algorithm.queue())?;
                    }
                }
                PackedAlgorithm::FixedWindow(algorithm) => {
                    match &algorithm.edges {
                        Edges::Epoch => {}
                        Edges::FirstHit => f.write_str(", align: first_hit")?,
                        Edges::Calendar(calendar) => write!(f, ", align: {calendar}")?,
                    }
                    if algorithm.count_denied != CountDenied::Never {
                        write!(f, ", count_denied: {}", algorithm.count_denied)?;
                    }
                }
                PackedAlgorithm::SlidingWindow(SlidingWindow { .. }) => {}
            },
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => {
                if algorithm.count_denied != CountDenied::Never {
                    write!(f, ", count_denied: {}", algorithm.count_denied)?;
                }
                if algorithm.min_interval_ns > 0 {
                    write!(f, ", min_interval: {}", duration::write(algorithm.min_interval_ns))?;
                }
            }
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(SubWindows {
                sub_windows, strict, ..
            })) => {
                write!(f, ", sub_windows: {sub_windows}, strict: {strict}")?;
            }
            Algorithm::Leases(Concurrency { .. }) => {}
        }
        if let Some(name) = &self.name {
            write!(f, ", name: {name}")?;
        }
        f.write_str("}")
    }
}
