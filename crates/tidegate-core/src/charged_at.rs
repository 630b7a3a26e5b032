//! When a plan was charged, for a refund that takes nothing from later requests.

use crate::algorithm::PackedAlgorithm;
use crate::{Algorithm, Outcome, Plan, Timestamp};

/// When a plan was charged, by the clock of the store that charged it.
///
/// A refund with it gives back only what still counts: nothing to a window that began after the charge, only units of that
/// instant to a log, and to a bucket only what has not flowed in since the charge began to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedAt {
    /// The instant of the charge.
    pub at: Timestamp,
    /// From when on the charge counts in a bucket: when the units taken before it have flowed in again. The earliest of the
    /// plan's buckets, and not before `at`. An instant that is too early gives back less.
    pub bucket_counts_from: Timestamp,
}

impl ChargedAt {
    /// A charge of which no more is known than its instant. To a bucket that was not full it gives back less than was taken,
    /// by as much as has flowed in since.
    pub const fn new(at: Timestamp) -> Self {
        Self { at, bucket_counts_from: at }
    }

    /// A plan that was charged at an instant, with these outcomes.
    pub fn from_outcomes(plan: &Plan<'_>, outcomes: &[Outcome], at: Timestamp) -> Self {
        let from = plan.charges().iter().zip(outcomes).filter(|(charge, _)| charge.cost > 0).filter_map(
            |(charge, outcome)| {
                let Algorithm::Packed(algorithm) = charge.counter.algorithm() else { return None };
                let span_ns = bucket_span_ns(algorithm, charge.cost)?;
                // The arrival time after the charge, rounded up. One nanosecond makes up for that.
                let after_ns = u128::from(at.as_nanos()) + outcome.reset_after.get();
                let from_ns = after_ns.saturating_sub(span_ns).saturating_sub(1);
                Some(Timestamp::from_nanos(u64::try_from(from_ns).unwrap_or(u64::MAX)))
            },
        );
        Self { at, bucket_counts_from: from.min().unwrap_or(at).max(at) }
    }

    /// From when on the charge counts by an algorithm, for
    /// [`refund_charged`](crate::algorithm::Counting::refund_charged).
    pub fn counted_from(self, algorithm: &Algorithm) -> Timestamp {
        match algorithm {
            Algorithm::Packed(
                PackedAlgorithm::Gcra(_) | PackedAlgorithm::TokenBucket(_) | PackedAlgorithm::LeakyBucket(_),
            ) => self.bucket_counts_from,
            _ => self.at,
        }
    }
}

/// How far a cost moves a bucket's arrival time, rounded up; none if the algorithm is no bucket.
fn bucket_span_ns(algorithm: &PackedAlgorithm, cost: u64) -> Option<u128> {
    let span = match algorithm {
        PackedAlgorithm::Gcra(one) => one.span(cost),
        PackedAlgorithm::TokenBucket(one) => one.as_gcra().span(cost),
        PackedAlgorithm::LeakyBucket(one) => one.as_gcra().span(cost),
        PackedAlgorithm::FixedWindow(_) | PackedAlgorithm::SlidingWindow(_) => return None,
    };
    Some(span.whole_ns + u128::from(span.remainder > 0))
}
