//! `CL.THROTTLE` against a simple model of redis-cell's arithmetic, with fractions instead of floating point.

use std::cmp::Ordering;
use std::collections::HashMap;

use proptest::prelude::*;
use tidegate::{MemoryStore, OutcomeKind, Timestamp};
use tidegate_server::serve::resp::{Quota, ThrottleAnswer, ThrottleCache, ThrottleError};

const SECOND_NS: i128 = 1_000_000_000;

/// A fraction of nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

impl Fraction {
    /// In lowest terms, so that long sums stay small.
    fn new(over: i128, under: i128) -> Self {
        let (mut divisor, mut rest) = (over.abs(), under);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Self { numerator: over / divisor, denominator: under / divisor }
    }

    fn plus(self, other: Self) -> Self {
        Self::new(
            self.numerator * other.denominator + other.numerator * self.denominator,
            self.denominator * other.denominator,
        )
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self::new(-other.numerator, other.denominator))
    }

    fn compare(self, other: Self) -> Ordering {
        self.minus(other).numerator.cmp(&0)
    }

    fn max(self, other: Self) -> Self {
        if self.compare(other) == Ordering::Less { other } else { self }
    }

    /// Rounds up to a nanosecond, then as redis-cell does: whole seconds, plus one if there are milliseconds.
    fn seconds(self) -> i64 {
        let nanos = self.numerator.div_euclid(self.denominator)
            + i128::from(self.numerator.rem_euclid(self.denominator) > 0);
        let milliseconds = nanos / 1_000_000;
        i64::try_from(milliseconds / 1_000 + i128::from(milliseconds % 1_000 > 0)).expect("a time")
    }
}

/// Arrival times by key.
#[derive(Default)]
struct Model {
    arrivals: HashMap<u8, Fraction>,
}

impl Model {
    fn throttle(
        &mut self,
        now_ns: u64,
        key: u8,
        quota: Quota,
        quantity: i64,
    ) -> Result<ThrottleAnswer, ThrottleError> {
        let interval_ns = i128::from(quota.period) * SECOND_NS / i128::from(quota.count);
        if interval_ns * i128::from(quantity) > i128::from(i64::MAX) {
            return Err(ThrottleError::TooLong);
        }
        let now = Fraction::new(i128::from(now_ns), 1);
        let interval = Fraction::new(i128::from(quota.period) * SECOND_NS, i128::from(quota.count));
        let times = |units: i64| Fraction::new(interval.numerator * i128::from(units), interval.denominator);
        let (limit, increment) = (quota.max_burst + 1, times(quantity));
        let tolerance = times(limit);
        let arrival = self.arrivals.get(&key).map_or(now, |arrival| arrival.max(now));
        let next = arrival.plus(increment);
        let too_early = next.minus(tolerance).minus(now);
        let is_denied = too_early.numerator > 0;
        let (left_until, retry_after_seconds) = match is_denied {
            true if quantity <= limit => (arrival, too_early.seconds()),
            true => (arrival, -1),
            false => (next, -1),
        };
        if !is_denied {
            self.arrivals.insert(key, next);
        }
        let ahead = left_until.minus(now);
        let free = tolerance.minus(ahead).max(Fraction::new(0, 1));
        let remaining = free.numerator * interval.denominator / (free.denominator * interval.numerator);
        Ok(ThrottleAnswer {
            kind: if is_denied { OutcomeKind::Denied } else { OutcomeKind::Allowed },
            limit,
            remaining: i64::try_from(remaining).expect("no more than the limit"),
            retry_after_seconds,
            reset_after_seconds: ahead.seconds(),
        })
    }
}

#[derive(Clone, Debug)]
struct Call {
    after_ns: u64,
    key: u8,
    quota: usize,
    quantity: i64,
}

fn call(quotas: usize) -> impl Strategy<Value = Call> {
    let after_ns = prop_oneof![
        3 => Just(0),
        2 => 0..2_000_000_000_u64,
        2 => (0..100_000_u64).prop_map(|ms| ms * 1_000_000),
        1 => (0..100_000_u64).prop_map(|seconds| seconds * 1_000_000_000),
    ];
    let quantity = prop_oneof![4 => Just(1), 1 => Just(0), 3 => 0..12_i64, 1 => 0..2_000_i64];
    (after_ns, 0..3_u8, 0..quotas, quantity).prop_map(|(after_ns, key, quota, quantity)| Call {
        after_ns,
        key,
        quota,
        quantity,
    })
}

fn assert_matches_model(quotas: &[Quota], calls: &[Call], quota_of: impl Fn(&Call) -> usize) {
    let (store, mut throttles, mut model) =
        (MemoryStore::bounded(1 << 20), ThrottleCache::default(), Model::default());
    let mut now_ns = 1_700_000_000_123_456_789;
    for call in calls {
        now_ns += call.after_ns;
        let quota = quotas[quota_of(call)];
        let expected = model.throttle(now_ns, call.key, quota, call.quantity);
        let now = Timestamp::from_nanos(now_ns);
        let answer = throttles.throttle(&store, now, &[call.key], quota, call.quantity);
        assert_eq!(answer, expected, "{call:?} {quota:?}");
    }
}

fn quota(count: impl Strategy<Value = i64>) -> impl Strategy<Value = Quota> {
    let max_burst = prop_oneof![Just(0), 0..20_i64, 0..1_000_i64];
    let period = prop_oneof![Just(1), Just(60), 1..100_000_i64, Just(315_360_000)];
    (max_burst, count, period).prop_map(|(max_burst, count, period)| Quota { max_burst, count, period })
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    /// Any rate, one per key.
    #[test]
    fn each_key_with_its_rate(
        quotas in proptest::collection::vec(quota(prop_oneof![1..100_i64, 1..10_000_000_000_i64]), 3),
        calls in proptest::collection::vec(call(3), 1..200),
    ) {
        assert_matches_model(&quotas, &calls, |call| usize::from(call.key));
    }

    /// Rates that change from call to call, more than a connection caches. Their interval is a whole number of
    /// nanoseconds, because a fraction is lost when the rate changes.
    #[test]
    fn rates_that_change(
        quotas in proptest::collection::vec(
            quota(prop::sample::select(vec![1, 2, 4, 5, 8, 10, 20, 100, 1_000, 1_000_000, 1_000_000_000])),
            7,
        ),
        calls in proptest::collection::vec(call(7), 1..200),
    ) {
        assert_matches_model(&quotas, &calls, |call| call.quota);
    }
}
