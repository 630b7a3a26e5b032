//! A histogram of call times with a fixed size.

/// Buckets per doubling of the time, so a figure is at most a sixteenth too large.
const STEPS_PER_DOUBLING: usize = 16;
const STEP_BITS: u32 = STEPS_PER_DOUBLING.trailing_zeros();
const BUCKETS: usize = (u64::BITS - STEP_BITS + 1) as usize * STEPS_PER_DOUBLING;

/// How many calls took how long.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    /// The number of calls.
    pub count: u64,
    /// The longest call, exactly.
    pub max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, max_ns: 0 }
    }
}

impl Latencies {
    /// Adds a call.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// The time that all calls except one in `one_in` stayed below, rounded up to the end of a bucket.
    pub fn all_but_one_in(&self, one_in: u64) -> u64 {
        let mut above = self.count / one_in.max(1);
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            if *count > above {
                return end_of(bucket).min(self.max_ns);
            }
            above -= count;
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    let doublings = (u64::BITS - ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    #[allow(clippy::cast_possible_truncation, reason = "at most twice the steps per doubling")]
    let step = (ns >> doublings) as usize;
    doublings as usize * STEPS_PER_DOUBLING + step
}

/// The longest time in a bucket.
fn end_of(bucket: usize) -> u64 {
    let doublings = (bucket / STEPS_PER_DOUBLING).saturating_sub(1);
    let step = (bucket - doublings * STEPS_PER_DOUBLING) as u128;
    u64::try_from(((step + 1) << doublings) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Latencies, bucket, end_of};

    #[test]
    fn every_time_is_in_a_bucket_that_ends_at_most_a_sixteenth_later() {
        let near = |ns: u64| [ns.saturating_sub(1), ns, ns.saturating_add(1)];
        for ns in (0..64).flat_map(|bit| near(1 << bit)).chain(0..5_000).chain([u64::MAX]) {
            let end = end_of(bucket(ns));
            assert!(bucket(ns) < BUCKETS);
            assert!(end >= ns && end - ns <= ns / 16, "{ns}: {end}");
            assert_eq!(bucket(end), bucket(ns));
        }
    }

    #[test]
    fn percentiles_are_found() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|ns| latencies.add(ns));
        assert!((500..=532).contains(&latencies.all_but_one_in(2)));
        assert!((990..=1_000).contains(&latencies.all_but_one_in(100)));
        assert_eq!((latencies.all_but_one_in(10_000), latencies.max_ns), (1_000, 1_000));
        assert_eq!(Latencies::default().all_but_one_in(2), 0);
    }
}
