//! No request waits for an observed limit.

use tidegate_core::{Charge, Counter, Nanos, Plan, Role, Timestamp, Wait};

use super::{ForecastAdmission, ForecastRequest, MemoryStore};

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn counter(index: usize, limit: &str) -> Counter {
    Counter::new("forecast", index, limit.parse().unwrap())
}

#[test]
fn observed_limits_cause_no_wait() {
    let second = Nanos::new(1_000_000_000);
    let enforced = counter(0, "1 per second");
    for limit in [
        "1 per hour",
        "{algorithm: leaky_bucket, limit: 1, per: 1h, queue: 9}",
        "{algorithm: sliding_log, limit: 1, per: 1h}",
        "{algorithm: concurrency, limit: 1, ttl: 1h}",
    ] {
        let (store, observed) = (MemoryStore::bounded(1 << 20), counter(1, limit));
        let mut plan = Plan::new();
        plan.add(Charge { role: Role::Observed, ..Charge::new(b"key", &observed, 1) }).unwrap();
        plan.add(Charge::new(b"key", &enforced, 1)).unwrap();
        let _ = store.check(&plan, NOW);
        assert_eq!(store.wait(&plan, NOW), Wait::of(second), "{limit}");
        let mut states = store.forecast(&plan);
        assert!(states.is_for(&plan), "{limit}");
        let request = ForecastRequest { cost: 1, from: NOW, deadline: None };
        let (first, next) = (NOW.saturating_add(second), NOW.saturating_add(Nanos::new(2_000_000_000)));
        assert_eq!(states.admit(&plan, request), ForecastAdmission::At(first), "{limit}");
        assert_eq!(states.admit(&plan, request), ForecastAdmission::At(next), "{limit}");
    }
}
