//! A flood of keys of one limit evicts keys of that limit, and of no other.

use std::sync::Arc;
use std::time::Duration;

use tidegate::store::{Charge, Counter};
use tidegate::{Limiter, ManualClock, MemoryStore, Refused, Timestamp};

/// Room for about 25,000 packed states.
const MEMORY_MAX: u64 = 1 << 20;
const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// Limiters over one small store.
struct Limiters {
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

impl Limiters {
    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::bounded(MEMORY_MAX)), clock: ManualClock::at(START) }
    }

    fn limiter(&self, rule: &str, limit: &str) -> Limiter<ManualClock> {
        let builder = Limiter::builder().rule(rule).limit(limit);
        builder.store(Arc::clone(&self.store)).clock(self.clock.clone()).build().unwrap()
    }

    fn evictions(&self) -> u64 {
        self.store.stats().live_evictions
    }
}

/// Sprays keys of `flood`, with a request to `hot` now and then. Returns how many of these requests were admitted.
fn admitted_in_flood(
    limiters: &Limiters,
    hot: &Limiter<ManualClock>,
    flood: &Limiter<ManualClock>,
    keys: u64,
) -> u64 {
    let mut admitted = 0;
    for key in 0..keys {
        let _ = flood.check(key.to_le_bytes(), 1);
        if key % 100 == 0 {
            admitted += u64::from(hot.check("1.2.3.4", 1).is_allowed());
        }
        limiters.clock.advance(Duration::from_micros(5));
    }
    admitted
}

/// The attack: `10 per minute` by ip beside `1 per day` by email. The state of the ip always resets first.
#[test]
fn a_flood_of_daily_keys_does_not_reset_a_counter_of_a_minute() {
    for (hot, flood) in [
        ("{algorithm: gcra, limit: 10, per: 1m}", "{algorithm: gcra, limit: 1, per: 1d}"),
        ("{algorithm: fixed_window, limit: 10, per: 1m, align: first_hit}", "1 per day"),
        ("{algorithm: sliding_window, limit: 10, per: 1m}", "{algorithm: fixed_window, limit: 1, per: 1d}"),
        ("{algorithm: sliding_log, limit: 10, per: 1m}", "{algorithm: sliding_log, limit: 1, per: 1d}"),
        ("{algorithm: sub_windows, limit: 10, per: 1m}", "{algorithm: sliding_log, limit: 1, per: 1d}"),
        ("{algorithm: sliding_log, limit: 10, per: 1m}", "1 per day"),
    ] {
        let limiters = Limiters::new();
        let (ip, email) = (limiters.limiter("ip", hot), limiters.limiter("email", flood));
        // 0.5 s, in which at most one unit of ten per minute comes back.
        let admitted = admitted_in_flood(&limiters, &ip, &email, 100_000);
        assert_eq!(admitted, 10, "{hot} beside {flood}");
        assert!(limiters.evictions() > 10_000 || flood == "1 per day", "{}", limiters.evictions());
        assert!(limiters.store.stats().bytes_used <= MEMORY_MAX);
    }
}

/// `CL.THROTTLE` keeps all keys under one counter, whatever limits they come with.
#[test]
fn a_flood_without_rules_does_not_reset_a_rule() {
    let limiters = Limiters::new();
    let ip = limiters.limiter("ip", "10 per minute");
    let mut admitted = 0;
    for key in 0..100_000_u64 {
        let limit = format!("{{algorithm: gcra, limit: 1, per: {}d}}", 1 + key % 3_000).parse().unwrap();
        let throttle = Counter::shared_gcra("cl.throttle", limit).unwrap();
        let _ = limiters.store.check_charge(&Charge::new(&key.to_le_bytes(), &throttle, 1), START);
        if key % 100 == 0 {
            admitted += u64::from(ip.check("1.2.3.4", 1).is_allowed());
        }
    }
    assert_eq!(admitted, 10);
    assert!(limiters.evictions() > 10_000, "{}", limiters.evictions());
}

/// With many limits, each keeps what it has, as long as that is less than its part.
#[test]
fn a_flood_on_one_of_many_limits_evicts_nothing_of_the_others() {
    const KEYS: u64 = 80;
    let limiters = Limiters::new();
    let rules: Vec<Limiter<ManualClock>> =
        (0..62).map(|rule| limiters.limiter(&format!("rule-{rule}"), "1 per minute")).collect();
    for rule in &rules {
        for key in 0..KEYS {
            assert!(rule.check(key.to_le_bytes(), 1).is_allowed());
        }
    }
    let flood = limiters.limiter("flood", "1 per day");
    for key in 0..100_000_u64 {
        assert!(flood.check(key.to_le_bytes(), 1).is_allowed());
    }
    assert!(limiters.evictions() > 10_000, "{}", limiters.evictions());
    for rule in &rules {
        let lost = (0..KEYS).filter(|key| rule.check(key.to_le_bytes(), 1).is_allowed()).count();
        assert_eq!(lost, 0);
    }
}

/// Two limits that both want more than there is get half each.
#[test]
fn two_floods_share_the_memory() {
    let limiters = Limiters::new();
    let floods = [limiters.limiter("minute", "1 per minute"), limiters.limiter("day", "1 per day")];
    for key in 0..60_000_u64 {
        for flood in &floods {
            let _ = flood.check(key.to_le_bytes(), 1);
        }
    }
    let known = floods
        .each_ref()
        .map(|flood| (0..60_000_u64).filter(|key| !flood.peek(key.to_le_bytes(), 1).is_allowed()).count());
    assert!(known[0].abs_diff(known[1]) < known[0] / 10, "{known:?}");
}

/// Leases are not evicted, so a limit leaves as much free as it has.
#[test]
fn a_flood_of_leases_leaves_room_for_other_limits() {
    let limiters = Limiters::new();
    let flood = limiters.limiter("flood", "{algorithm: concurrency, limit: 1, ttl: 1h}");
    let locks = limiters.limiter("locks", "{algorithm: concurrency, limit: 1, ttl: 1m}");
    let taken = (0..20_000_u64).filter(|key| flood.lease(key.to_le_bytes(), 1, None).1.is_some()).count();
    assert!((1_000..19_000).contains(&taken), "{taken}");
    assert!(limiters.store.stats().lease_refusals > 0);
    for key in 0..taken as u64 / 4 {
        assert!(locks.lease(key.to_le_bytes(), 1, None).1.is_some(), "{key} of {taken}");
    }
    let more = |key: u64| flood.try_acquire(key.to_le_bytes(), 1);
    assert!((100_000..100_100).all(|key| more(key).is_err_and(|error| error == Refused::LeaseMemoryFull)));
}
