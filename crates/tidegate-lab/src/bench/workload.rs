//! Which keys come, in which order.
//!
//! The order is laid out beforehand as the keys themselves, one after the other, so that neither choosing a key
//! nor fetching it from a random place is measured: a server has just parsed the key and has it at hand.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// Requests laid out for a million keys: about two for each.
const LONG_WALK: usize = 1 << 21;
/// Requests laid out for a thousand keys; few enough for the walk itself to stay in the second-level cache.
const SHORT_WALK: usize = 1 << 14;
/// Requests laid out for one key.
const HOT_WALK: usize = 16;
/// A prime that does not divide the number of keys: spreads neighbours in popularity over all keys.
const SCATTER: u64 = 7_919;
/// Every run measures the same requests.
const SEED: u64 = 42;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Every request has the same key.
    HotKey,
    /// A thousand keys, each as likely as the other.
    Thousand,
    /// A million keys, each as likely as the other.
    Million,
    /// A million keys, the r-th most likely with a chance of about 1/r.
    MillionZipf,
}

/// Keys, and the order in which they come.
pub(super) struct Workload {
    pub traffic: Traffic,
    pub walk: Vec<String>,
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

    pub(super) const fn keys(self) -> u64 {
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
        let keys = traffic.keys();
        let walk = match traffic {
            Traffic::HotKey => (0..HOT_WALK).map(|_| key(0)).collect(),
            Traffic::Thousand => (0..SHORT_WALK).map(|_| key(random.random_range(0..keys))).collect(),
            Traffic::Million => (0..LONG_WALK).map(|_| key(random.random_range(0..keys))).collect(),
            Traffic::MillionZipf => {
                let ranks = Zipf::new(keys as f64, 1.0).expect("the parameters are in range");
                let by_rank = |rank: f64| {
                    #[allow(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a rank from one to the number of keys"
                    )]
                    key((rank as u64 - 1) * SCATTER % keys)
                };
                (0..LONG_WALK).map(|_| by_rank(ranks.sample(&mut random))).collect()
            }
        };
        Self { traffic, walk }
    }
}

/// The key of a number: `user:123456`.
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
        for key in &workload.walk {
            *counts.entry(key).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The harmonic number of a million is 14.4, so the first key is one request in 14.4, the tenth one in 144.
        let share = |rank: usize| workload.walk.len() as f64 / counts[rank - 1] as f64;
        assert!((14.0..15.0).contains(&share(1)), "{}", share(1));
        assert!((135.0..153.0).contains(&share(10)), "{}", share(10));
    }
}
