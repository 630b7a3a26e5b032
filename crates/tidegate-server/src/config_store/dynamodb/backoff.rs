//! How long to wait before a request is sent again.

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};

/// The first wait is up to this long. Each further one may be twice as long, up to the maximum.
const WAIT_FIRST: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_millis(320);

/// Waits that grow, and that are random so that nodes which compete do not meet again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait.
    pub fn next(&mut self, random: &SystemRandom) -> Duration {
        let longest = WAIT_FIRST.saturating_mul(1 << self.attempts.min(16)).min(WAIT_MAX);
        self.attempts += 1;
        random_up_to(longest, random)
    }
}

/// A random time, up to this long.
pub(super) fn random_up_to(longest: Duration, random: &SystemRandom) -> Duration {
    let mut bytes = [0; 4];
    // Without randomness, half of it.
    let fraction = random.fill(&mut bytes).map_or(u32::MAX / 2, |()| u32::from_le_bytes(bytes));
    longest.mul_f64(f64::from(fraction) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded() {
        let (mut backoff, random) = (Backoff::default(), SystemRandom::new());
        assert!(backoff.next(&random) <= WAIT_FIRST);
        assert!((0..100).all(|_| backoff.next(&random) <= WAIT_MAX));
    }
}
