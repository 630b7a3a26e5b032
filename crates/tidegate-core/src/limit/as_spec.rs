//! A limit as it would be asked for.

use super::{Algorithm, AlgorithmName, Limit, LimitSpec};
use crate::algorithm::{Align, Edges, UsageLogAlgorithm, PackedAlgorithm, TokenBucket};

impl Limit {
    /// Its fields, those with a default written out: what [`LimitSpec::build`] makes this same limit of.
    ///
    /// ```
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "10/s burst 20".parse()?;
    /// assert_eq!(limit.spec().burst, Some(20));
    /// assert_eq!(limit.spec().build()?, limit);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn spec(&self) -> LimitSpec {
        let (name, rate) = (self.algorithm_name(), self.rate());
        let spec = LimitSpec {
            algorithm: Some(name),
            limit: rate.limit(),
            per_ns: if name == AlgorithmName::Concurrency { 0 } else { rate.window_ns() },
            name: self.name().map(str::to_owned),
            ..LimitSpec::default()
        };
        match &self.algorithm {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(one) | PackedAlgorithm::TokenBucket(TokenBucket(one)),
            ) => LimitSpec { burst: (one.burst() > 0).then_some(one.burst()), ..spec },
            Algorithm::Packed(PackedAlgorithm::LeakyBucket(one)) => {
                LimitSpec { queue: (one.queue() > 0).then_some(one.queue()), ..spec }
            }
            Algorithm::Packed(PackedAlgorithm::FixedWindow(one)) => {
                let align = match &one.edges {
                    Edges::Epoch => Align::Epoch,
                    Edges::FirstHit => Align::FirstHit,
                    Edges::Calendar(calendar) => Align::Calendar(calendar.spec()),
                };
                LimitSpec { align: Some(align), count_denied: Some(one.count_denied), ..spec }
            }
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_)) => spec,
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(one)) => LimitSpec {
                count_denied: Some(one.count_denied),
                min_interval_ns: (one.min_interval_ns > 0).then_some(one.min_interval_ns),
                ..spec
            },
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(one)) => {
                LimitSpec { sub_windows: Some(one.sub_windows.into()), strict: Some(one.strict), ..spec }
            }
            Algorithm::Leases(_) => LimitSpec { ttl_ns: Some(rate.window_ns()), ..spec },
        }
    }
}
