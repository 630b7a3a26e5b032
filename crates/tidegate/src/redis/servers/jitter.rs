//! Pauses that differ, so that a fleet does not do the same thing at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A span that a pause is drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct JitterRange {
    pub min: Duration,
    pub max: Duration,
}

impl JitterRange {
    pub const fn from_millis(range: std::ops::RangeInclusive<u64>) -> Self {
        Self { min: Duration::from_millis(*range.start()), max: Duration::from_millis(*range.end()) }
    }

    pub fn pick(self) -> Duration {
        let spread_ms = u64::try_from(self.max.saturating_sub(self.min).as_millis()).unwrap_or(u64::MAX);
        self.min + Duration::from_millis(random_u64() % spread_ms.saturating_add(1))
    }
}

/// Some number. Whoever makes a hasher for a map gets it from the operating system; nothing here has to be a secret.
pub(super) fn random_u64() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::JitterRange;

    #[test]
    fn pauses_differ_and_stay_in_range() {
        let span = JitterRange::from_millis(300..=900);
        let drawn: Vec<_> = (0..100).map(|_| span.pick()).collect();
        assert!(drawn.iter().all(|pause| (span.min..=span.max).contains(pause)));
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
    }
}
