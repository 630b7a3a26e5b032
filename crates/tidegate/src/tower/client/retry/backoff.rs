//! Pauses between attempts: exponential back-off with full jitter.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pauses before retries: a random time between zero and a ceiling, which doubles with each retry ("full jitter"). If the
/// server says when to retry, the pause is added to that time, so that the clients of a fleet do not all return at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The ceiling before the first retry.
    pub first: Duration,
    /// The largest ceiling.
    pub longest: Duration,
}

impl Default for Backoff {
    /// Up to 100 ms before the first retry, up to 10 s before later ones.
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// The pause before the retry after this many earlier ones.
    pub(super) fn pause(self, retries: u32, jitter: &Jitter) -> Duration {
        let first_ns = u64::try_from(self.first.as_nanos()).unwrap_or(u64::MAX);
        let longest_ns = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX);
        let factor = 1_u64.checked_shl(retries).unwrap_or(u64::MAX);
        let ceiling_ns = first_ns.saturating_mul(factor).min(longest_ns);
        Duration::from_nanos(jitter.up_to(ceiling_ns))
    }
}

/// A source of random numbers that need not be secret: SplitMix64. With a seed, a test gets the same numbers each time.
#[derive(Debug)]
pub(super) struct Jitter {
    state: AtomicU64,
}

impl Jitter {
    /// The source with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A source that differs in each process.
    pub fn random() -> Self {
        Self::seeded(RandomState::new().hash_one(()))
    }

    /// A number between zero and `max`, each with the same probability as far as 64 bits allow.
    pub fn up_to(&self, max: u64) -> u64 {
        let product = u128::from(self.next()) * (u128::from(max) + 1);
        u64::try_from(product >> u64::BITS).unwrap_or(max)
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_cover_their_range_and_the_range_doubles() {
        let (backoff, jitter) = (Backoff::default(), Jitter::seeded(1));
        for (retries, ceiling_ms) in [(0, 100), (1, 200), (3, 800), (6, 6_400), (7, 10_000), (64, 10_000)] {
            let pauses: Vec<_> = (0..1_000).map(|_| backoff.pause(retries, &jitter)).collect();
            let ceiling = Duration::from_millis(ceiling_ms);
            assert!(pauses.iter().all(|pause| *pause <= ceiling));
            assert!(pauses.iter().any(|pause| *pause < ceiling / 10), "some are short");
            assert!(pauses.iter().any(|pause| *pause > ceiling / 10 * 9), "some are long");
        }
    }

    #[test]
    fn a_seed_repeats_its_pauses() {
        let pauses = |seed| {
            let jitter = Jitter::seeded(seed);
            (0..5).map(|_| jitter.up_to(u64::MAX)).collect::<Vec<_>>()
        };
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
        assert_eq!(Jitter::seeded(7).up_to(0), 0);
    }
}
