//! The keys of requests, their order, and their limit.
//!
//! A workload stores the keys themselves in the order of the requests, so that a benchmark measures neither choosing a
//! key nor loading it from a random address. A server, too, has just parsed the key when it decides.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// Requests on a million keys: about two per key.
const LONG_SEQUENCE: usize = 1 << 21;
/// Requests on a thousand keys: few enough for the sequence itself to stay in the second-level cache.
const SHORT_SEQUENCE: usize = 1 << 14;
/// Requests on one key.
const HOT_SEQUENCE: usize = 16;
/// A prime that does not divide the number of keys: spreads keys of similar popularity over the table.
const SCATTER: u64 = 7_919;
/// Every run measures the same requests.
const SEED: u64 = 42;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Every request has the same key.
    HotKey,
    /// A thousand keys, all equally likely.
    Thousand,
    /// A million keys, all equally likely.
    Million,
    /// A million keys, where the r-th most popular has a probability proportional to 1/r.
    MillionZipf,
}

/// The keys of requests, in order.
pub(super) struct Workload {
    pub traffic: Traffic,
    pub keys: Vec<String>,
}

/// The limit of all keys, for each contender to translate: a rate with a burst, or a limit per window.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchLimit {
    /// Units that refill per window.
    pub rate: u32,
    /// The window.
    pub per_s: u32,
    /// The size of a burst.
    pub burst: u32,
    /// Units per window of algorithms without a burst.
    pub window_limit: u32,
}

impl BenchLimit {
    /// Admits all requests of a run, also on one hot key.
    ///
    /// A large burst, not a high rate, admits them. A state that refills within nanoseconds counts as never seen, so
    /// Tidegate would keep none of a million keys, which would be no fair comparison. The interval of 10/7 seconds is
    /// not a whole number of nanoseconds, like most intervals. Burst times window is below 2^62 ns, as for most real
    /// limits, so no contender needs wider arithmetic than usual.
    pub(super) const OPEN: Self = Self { rate: 7, per_s: 10, burst: 250_000_000, window_limit: 250_000_000 };

    /// Denies all requests after the first few of a day.
    pub(super) const EXHAUSTED: Self = Self { rate: 10, per_s: 86_400, burst: 10, window_limit: 10 };

    /// Keeps a key live for longer than it takes to add ten million others.
    pub(super) const LASTING: Self = Self { rate: 1, per_s: 3_600, burst: 1_000, window_limit: 1_000 };
}

impl Traffic {
    pub(super) const ALL: [Self; 4] = [Self::HotKey, Self::Thousand, Self::Million, Self::MillionZipf];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::HotKey => "one hot key",
            Self::Thousand => "1,000 keys, uniform",
            Self::Million => "1,000,000 keys, uniform",
            Self::MillionZipf => "1,000,000 keys, Zipf s = 1",
        }
    }

    pub(super) const fn distinct_keys(self) -> u64 {
        match self {
            Self::HotKey => 1,
            Self::Thousand => 1_000,
            Self::Million | Self::MillionZipf => 1_000_000,
        }
    }
}

impl Workload {
    pub(super) fn new(traffic: Traffic) -> Self {
        let mut random = SmallRng::seed_from_u64(SEED);
        let distinct = traffic.distinct_keys();
        let keys = match traffic {
            Traffic::HotKey => (0..HOT_SEQUENCE).map(|_| key(0)).collect(),
            Traffic::Thousand => (0..SHORT_SEQUENCE).map(|_| key(random.random_range(0..distinct))).collect(),
            Traffic::Million => (0..LONG_SEQUENCE).map(|_| key(random.random_range(0..distinct))).collect(),
            Traffic::MillionZipf => {
                let ranks = Zipf::new(distinct as f64, 1.0).expect("the parameters are in range");
                let by_rank = |rank: f64| {
                    #[allow(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a rank from one to the number of keys"
                    )]
                    key((rank as u64 - 1) * SCATTER % distinct)
                };
                (0..LONG_SEQUENCE).map(|_| by_rank(ranks.sample(&mut random))).collect()
            }
        };
        Self { traffic, keys }
    }
}

/// Makes a key like `user:123456`.
pub(super) fn key(number: u64) -> String {
    format!("user:{}", 100_000 + number)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn popularity_falls_with_the_rank() {
        let workload = Workload::new(Traffic::MillionZipf);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for key in &workload.keys {
            *counts.entry(key).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The harmonic number of a million is 14.4: one request in 14.4 has the first key, one in 144 the tenth.
        let share = |rank: usize| workload.keys.len() as f64 / counts[rank - 1] as f64;
        assert!((14.0..15.0).contains(&share(1)), "{}", share(1));
        assert!((135.0..153.0).contains(&share(10)), "{}", share(10));
    }
}
