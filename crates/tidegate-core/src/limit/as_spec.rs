//! Converts a limit back to its spec.

use super::{AlgorithmName, Limit, LimitSpec};
use crate::Algorithm;
use crate::algorithm::{Align, Edges, PackedAlgorithm, TokenBucket, UsageLogAlgorithm};

impl Limit {
    /// The spec of this limit, with defaults written out. [`LimitSpec::build`] builds the same limit from it.
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
                PackedAlgorithm::Gcra(algorithm) | PackedAlgorithm::TokenBucket(TokenBucket(algorithm)),
            ) => LimitSpec { burst: (algorithm.burst() > 0).then_some(algorithm.burst()), ..spec },
            Algorithm::Packed(PackedAlgorithm::LeakyBucket(algorithm)) => {
                LimitSpec { queue: (algorithm.queue() > 0).then_some(algorithm.queue()), ..spec }
            }
            Algorithm::Packed(PackedAlgorithm::FixedWindow(algorithm)) => {
                let align = match &algorithm.edges {
                    Edges::Epoch => Align::Epoch,
                    Edges::FirstHit => Align::FirstHit,
                    Edges::Calendar(calendar) => Align::Calendar(calendar.spec()),
                };
                LimitSpec { align: Some(align), count_denied: Some(algorithm.count_denied), ..spec }
            }
            Algorithm::Packed(PackedAlgorithm::SlidingWindow(_)) => spec,
            Algorithm::UsageLog(UsageLogAlgorithm::SlidingLog(algorithm)) => LimitSpec {
                count_denied: Some(algorithm.count_denied),
                min_interval_ns: (algorithm.min_interval_ns > 0).then_some(algorithm.min_interval_ns),
                ..spec
            },
            Algorithm::UsageLog(UsageLogAlgorithm::SubWindows(algorithm)) => LimitSpec {
                sub_windows: Some(algorithm.sub_windows.into()),
                strict: Some(algorithm.strict),
                ..spec
            },
            Algorithm::Leases(_) => LimitSpec { ttl_ns: Some(rate.window_ns()), ..spec },
        }
    }
}
