//! Random pauses, so that many nodes do not do the same thing at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The range of a random pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitterRange {
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

impl std::ops::Mul<u32> for JitterRange {
    type Output = Self;

    fn mul(self, factor: u32) -> Self {
        Self { min: self.min * factor, max: self.max * factor }
    }
}

/// A random number that need not be secret. The keys of `RandomState` come from the operating system.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::JitterRange;

    #[test]
    fn pauses_differ_and_stay_in_range() {
        let range = JitterRange::from_millis(300..=900);
        let pauses: Vec<_> = (0..100).map(|_| range.pick()).collect();
        assert!(pauses.iter().all(|pause| (range.min..=range.max).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
