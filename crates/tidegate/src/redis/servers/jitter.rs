//! Pauses that differ, so that a fleet does not do the same thing at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A span that a pause is drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub least: Duration,
    pub most: Duration,
}

impl Between {
    pub const fn millis(range: std::ops::RangeInclusive<u64>) -> Self {
        Self { least: Duration::from_millis(*range.start()), most: Duration::from_millis(*range.end()) }
    }

    pub fn draw(self) -> Duration {
        let spread_ms = u64::try_from(self.most.saturating_sub(self.least).as_millis()).unwrap_or(u64::MAX);
        self.least + Duration::from_millis(draw() % spread_ms.saturating_add(1))
    }
}

/// Some number. Whoever makes a hasher for a map gets it from the operating system; nothing here has to be a secret.
pub(super) fn draw() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::Between;

    #[test]
    fn pauses_differ_and_stay_in_their_span() {
        let span = Between::millis(300..=900);
        let drawn: Vec<_> = (0..100).map(|_| span.draw()).collect();
        assert!(drawn.iter().all(|pause| (span.least..=span.most).contains(pause)));
        assert!(drawn.iter().any(|pause| *pause != drawn[0]));
    }
}
