//! Leases that nobody gives back are a sliding log.

use proptest::prelude::*;
use tidegate::{Limiter, ManualClock, Timestamp};

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn without_releases_concurrency_equals_a_sliding_log(
        limit in 0_u64..8,
        requests in prop::collection::vec((prop_oneof![Just(0_i64), -2_000_000..8_000_000_i64], 0_u64..10, any::<bool>()), 1..150),
    ) {
        let build = |limit: String| Limiter::builder().limit(limit).clock(ManualClock::default()).build().unwrap();
        let leases = build(format!("{{algorithm: concurrency, limit: {limit}, ttl: 10ms}}"));
        let log = build(format!("{{algorithm: sliding_log, limit: {limit}, per: 10ms}}"));
        let mut now_ns = 1_700_000_000_000_000_000_i64;
        for (step_ns, cost, peek) in requests {
            now_ns += step_ns;
            let now = Timestamp::from_nanos(u64::try_from(now_ns).unwrap());
            let (one, other) = match peek {
                true => (leases.peek_at("key", cost, now), log.peek_at("key", cost, now)),
                false => (leases.check_at("key", cost, now), log.check_at("key", cost, now)),
            };
            prop_assert_eq!(one.kind, other.kind);
            prop_assert_eq!(one.remaining, other.remaining);
            prop_assert_eq!(one.retry_after, other.retry_after);
        }
    }
}
