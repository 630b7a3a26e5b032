//! When a plan was charged. A refund uses it to give back nothing that later requests took.

use crate::algorithm::PackedAlgorithm;
use crate::{Algorithm, Outcome, Plan, Timestamp};

/// When a plan was charged, by the clock of the store that charged it.
///
/// A refund with this value gives back only units that still count. It gives nothing back to a window that began after
/// the charge. In a log it removes only units of that instant. To a bucket it gives back only what has not flowed in
/// since the charge began to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedAt {
    /// The instant of the charge.
    pub at: Timestamp,
    /// The instant from which the charge counts in a bucket: when the units that were taken before it have flowed in
    /// again. This is the earliest such instant of the plan's buckets, and never before `at`. An instant that is too
    /// early makes a refund smaller.
    pub bucket_counts_from: Timestamp,
}

impl ChargedAt {
    /// For a charge of which only the instant is known. A refund to a bucket that was not full then gives back less
    /// than was taken, by the units that have flowed in since.
    pub const fn new(at: Timestamp) -> Self {
        Self { at, bucket_counts_from: at }
    }

    /// For a plan that was charged at an instant, with these outcomes.
    pub fn from_outcomes(plan: &Plan<'_>, outcomes: &[Outcome], at: Timestamp) -> Self {
        let counts_from =
            plan.charges().iter().zip(outcomes).filter(|(charge, _)| charge.cost > 0).filter_map(
                |(charge, outcome)| {
                    let Algorithm::Packed(algorithm) = charge.counter.algorithm() else { return None };
                    let span_ns = bucket_span_ns(algorithm, charge.cost)?;
                    // This is the arrival time after the charge, rounded up. Subtract one nanosecond for the rounding.
                    let after_ns = u128::from(at.as_nanos()) + outcome.reset_after.get();
                    let from_ns = after_ns.saturating_sub(span_ns).saturating_sub(1);
                    Some(Timestamp::from_nanos(u64::try_from(from_ns).unwrap_or(u64::MAX)))
                },
            );
        Self { at, bucket_counts_from: counts_from.min().unwrap_or(at).max(at) }
    }

    /// The instant from which an algorithm counts the charge, for
    /// [`refund_charged`](crate::algorithm::LimitAlgorithm::refund_charged).
    pub fn counted_from(self, algorithm: &Algorithm) -> Timestamp {
        match algorithm {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_) | PackedAlgorithm::LeakyBucket(_),
            ) => self.bucket_counts_from,
            _ => self.at,
        }
    }
}

/// How far a cost moves a bucket's arrival time, rounded up. `None` if the algorithm is not a bucket.
fn bucket_span_ns(algorithm: &PackedAlgorithm, cost: u64) -> Option<u128> {
    let span = match algorithm {
        PackedAlgorithm::Gcra(gcra) => gcra.span(cost),
        PackedAlgorithm::TokenBucket(bucket) => bucket.as_gcra().span(cost),
        PackedAlgorithm::LeakyBucket(bucket) => bucket.as_gcra().span(cost),
        PackedAlgorithm::FixedWindow(_) | PackedAlgorithm::SlidingWindow(_) => return None,
    };
    Some(span.whole_ns + u128::from(span.remainder > 0))
}
