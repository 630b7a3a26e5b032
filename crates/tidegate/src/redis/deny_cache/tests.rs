//! When a cached denial ends, what invalidates it, and the bounds of the cache.

use tidegate_core::algorithm::LimitAlgorithm;
use tidegate_core::{
    Algorithm, Counter, DenyCache as Caching, Nanos, Op, PackedState, Role, TimedCost, Timestamp, UsageLog,
};

use super::cache::{ENTRIES_MAX, ENTRY_AGE_NS_MAX};
use super::shard::{SHARD_ENTRIES_MAX, SHARD_HEAP_BYTES_MAX, heap_bytes};
use super::{DenialCaching, DenyCache, ReplyTime, STATE_HEAP_BYTES_MAX, StatesBefore};
use crate::redis::key_name::KeyName;
use crate::redis::plan::{RedisCharge, RedisPlan};
use crate::redis::script::KeyState;
use crate::sync::lock;
use crate::{IntoLimit, Wait};

const SECOND_NS: u64 = 1_000_000_000;
/// The clock of Redis, which is ahead, and the clock of this process.
const AT: Timestamp = Timestamp::from_nanos(5_000 * SECOND_NS);
const SENT: Timestamp = Timestamp::from_nanos(1_000 * SECOND_NS);

fn after(instant: Timestamp, ns: u64) -> Timestamp {
    instant.saturating_add(Nanos::new(ns.into()))
}

fn charge(key: &str, text: &str, cost: u64) -> RedisCharge {
    let counter = Counter::new("rule", 0, text.into_limit().unwrap());
    RedisCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: counter.algorithm().clone(),
        cost,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: Caching::On,
        mobility: crate::redis::topology::KeyMobility::Movable,
    }
}

fn redis_plan(charges: &[RedisCharge]) -> RedisPlan {
    RedisPlan::new(Op::Check, charges.iter().cloned().collect())
}

/// The state of a key that used this much.
fn used(charge: &RedisCharge, cost: u64, at: Timestamp) -> KeyState {
    let timed_cost = TimedCost { now: at, cost };
    match &charge.algorithm {
        Algorithm::Packed(algorithm) => {
            let mut state = PackedState::NEVER_SEEN;
            algorithm.charge(&mut state, timed_cost);
            KeyState::Packed(state)
        }
        Algorithm::UsageLog(algorithm) => {
            let mut state = UsageLog::default();
            algorithm.charge(&mut state, timed_cost);
            KeyState::UsageLog(state)
        }
        Algorithm::Leases(_) => unreachable!("no test has leases"),
    }
}

fn reply_time(at: Timestamp, sent: Timestamp) -> ReplyTime {
    ReplyTime { server_time: at, sent_at: sent }
}

/// 10 per second, all of them used.
fn insert_over_limit(cache: &DenyCache) -> RedisCharge {
    let charge = charge("key", "10/s burst 10", 1);
    cache.insert_denial(std::slice::from_ref(&charge), &[used(&charge, 10, AT)], reply_time(AT, SENT));
    charge
}

#[test]
fn a_denial_ends_at_the_latest_possible_server_time() {
    let cache = DenyCache::new();
    let plan = redis_plan(&[insert_over_limit(&cache)]);
    // A tenth of a second after the call was sent, a unit may be available.
    let denied = cache.cached_denial(&plan, after(SENT, SECOND_NS / 10 - 1)).unwrap();
    assert_eq!(denied.at, after(AT, SECOND_NS / 10 - 1));
    assert_eq!(denied.outcomes[0].retry_after, Wait::of(Nanos::new(1)));
    assert!(cache.cached_denial(&plan, after(SENT, SECOND_NS / 10)).is_none());
    let uncached = RedisCharge { deny_cache: Caching::Off, ..plan.charges[0].clone() };
    assert!(cache.cached_denial(&redis_plan(&[uncached]), SENT).is_none());
}

#[test]
fn an_entry_expires_after_one_second() {
    let cache = DenyCache::new();
    let never = charge("key", "{algorithm: gcra, limit: 10, per: 1h}", 1);
    cache.insert_denial(std::slice::from_ref(&never), &[used(&never, 10, AT)], reply_time(AT, SENT));
    let plan = redis_plan(&[never]);
    assert!(cache.cached_denial(&plan, after(SENT, ENTRY_AGE_NS_MAX - 1)).is_some());
    assert!(cache.cached_denial(&plan, after(SENT, ENTRY_AGE_NS_MAX)).is_none());
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_plan_is_denied_only_if_all_of_its_keys_are_known() {
    let cache = DenyCache::new();
    let both = redis_plan(&[insert_over_limit(&cache), charge("other", "5/s", 1)]);
    assert!(cache.cached_denial(&both, SENT).is_none());
    cache.insert_denial(
        &both.charges[1..],
        &[KeyState::Packed(PackedState::NEVER_SEEN)],
        reply_time(AT, SENT),
    );
    let denied = cache.cached_denial(&both, SENT).unwrap();
    assert_eq!(denied.outcomes.len(), 2);
    assert_eq!(denied.outcomes[1].remaining, 5);
    // The limit that denies may not be denied from the cache.
    let uncached = RedisCharge { deny_cache: Caching::Off, ..both.charges[0].clone() };
    assert!(cache.cached_denial(&redis_plan(&[uncached, both.charges[1].clone()]), SENT).is_none());
}

#[test]
fn a_refund_invalidates_earlier_replies() {
    let cache = DenyCache::new();
    let charge = insert_over_limit(&cache);
    let (charges, plan) = (std::slice::from_ref(&charge), redis_plan(std::slice::from_ref(&charge)));
    cache.record_refund(charges, reply_time(after(AT, 5), SENT));
    assert!(cache.cached_denial(&plan, SENT).is_none());
    // Replies from before the refund, and from the same instant, that arrive after it.
    for at in [after(AT, 4), after(AT, 5)] {
        cache.insert_denial(charges, &[used(&charge, 10, AT)], reply_time(at, SENT));
        assert!(cache.cached_denial(&plan, SENT).is_none());
    }
    cache.insert_denial(charges, &[used(&charge, 10, AT)], reply_time(after(AT, 6), SENT));
    assert!(cache.cached_denial(&plan, SENT).is_some());
    cache.forget(charges);
    assert!(cache.cached_denial(&plan, SENT).is_none());
}

#[test]
fn entries_and_bytes_are_bounded_and_the_newest_stay() {
    let cache = DenyCache::new();
    let text = "{algorithm: sliding_log, limit: 250, per: 1h}";
    for number in 0..3 * ENTRIES_MAX {
        let charge = charge(&format!("key:{number}"), "10/s burst 10", 1);
        cache.insert_denial(std::slice::from_ref(&charge), &[used(&charge, 10, AT)], reply_time(AT, SENT));
    }
    assert!(cache.len() <= ENTRIES_MAX && cache.len() > ENTRIES_MAX / 2, "{}", cache.len());
    let newest = charge(&format!("key:{}", 3 * ENTRIES_MAX - 1), "10/s burst 10", 1);
    assert!(cache.cached_denial(&redis_plan(&[newest]), SENT).is_some());
    // A key that is inserted many times takes one entry.
    let cache = DenyCache::new();
    for number in 0..5_000 {
        let charge = insert_over_limit(&cache);
        cache.insert_denial(
            std::slice::from_ref(&charge),
            &[used(&charge, 10, AT)],
            reply_time(after(AT, number), SENT),
        );
    }
    assert_eq!(cache.len(), 1);
    let entries: usize = cache.shards.iter().map(|shard| lock(shard).insertion_order.len()).sum();
    assert!(entries <= SHARD_ENTRIES_MAX);
    let log = charge("log", text, 1);
    let Algorithm::UsageLog(algorithm) = &log.algorithm else { panic!("a log is a usage log") };
    let mut large = UsageLog::default();
    for number in 0..2_000 {
        algorithm.charge(&mut large, TimedCost { now: after(AT, number), cost: 1 });
    }
    assert!((STATE_HEAP_BYTES_MAX / 2..=STATE_HEAP_BYTES_MAX).contains(&large.heap_bytes()));
    let state = KeyState::UsageLog(large);
    for number in 0..2_000 {
        let charge = charge(&format!("log:{number}"), text, 1);
        cache.insert_denial(
            std::slice::from_ref(&charge),
            std::slice::from_ref(&state),
            reply_time(AT, SENT),
        );
    }
    for shard in &cache.shards {
        let shard = lock(shard);
        let heap_bytes_sum: usize =
            shard.by_key.values().map(|entry| heap_bytes(entry.state.as_deref())).sum();
        assert_eq!(heap_bytes_sum, shard.heap_bytes);
        assert!(heap_bytes_sum <= SHARD_HEAP_BYTES_MAX, "{heap_bytes_sum}");
    }
}

#[test]
fn logs_that_count_attempts_and_leases_are_not_cached() {
    let plain = charge("plain", "10/s", 1);
    let is_cached =
        |charges: &[RedisCharge]| DenialCaching::for_plan(&redis_plan(charges)) == DenialCaching::Enabled;
    let uncached = RedisCharge { deny_cache: Caching::Off, ..plain.clone() };
    assert!(is_cached(std::slice::from_ref(&plain)));
    assert!(!is_cached(std::slice::from_ref(&uncached)));
    let texts = [
        "{algorithm: sliding_log, limit: 1, per: 1h, count_denied: true}",
        "{algorithm: concurrency, limit: 1, ttl: 1h}",
    ];
    for text in texts {
        assert!(!is_cached(&[plain.clone(), charge("other", text, 1)]), "{text}");
    }
    let counting = charge("other", "{algorithm: fixed_window, limit: 1, per: 1h, count_denied: true}", 1);
    assert!(is_cached(&[plain.clone(), counting]));
    let observed = RedisCharge { role: Role::Observed, ..plain.clone() };
    assert!(!is_cached(std::slice::from_ref(&observed)));
    assert!(is_cached(&[observed, plain]));
}

/// The state before a plan, which other plans had charged too and were refunded since.
#[test]
fn a_restored_state_reports_what_remains_and_denies_nothing() {
    let cache = DenyCache::new();
    let user = charge("user", "{algorithm: sliding_log, limit: 1000, per: 1h}", 600);
    let ip = charge("ip", "10/s burst 10", 1);
    let (users, ips) = (std::slice::from_ref(&user), std::slice::from_ref(&ip));
    // Plans of 500 and 400 were charged one after the other, and both were refunded at the same time.
    cache.record_refund(users, reply_time(after(AT, 9), SENT));
    let before = [used(&user, 500, AT)];
    let before = StatesBefore { states: &before, reply_time: reply_time(AT, SENT) };
    cache.restore(users, before, after(AT, 9));
    cache.restore(users, StatesBefore { states: &[used(&user, 0, AT)], ..before }, after(AT, 9));
    assert!(cache.cached_denial(&redis_plan(users), SENT).is_none());
    // With another key that denies, the cache reports roughly what remains of this one.
    cache.insert_denial(ips, &[used(&ip, 10, AT)], reply_time(AT, SENT));
    let denied = cache.cached_denial(&redis_plan(&[user.clone(), ip.clone()]), SENT).unwrap();
    assert_eq!((denied.outcomes[0].remaining, denied.outcomes[1].remaining), (500, 0));
    // A reply from in between, in which another plan was denied, arrives late.
    cache.insert_denial(users, &[used(&user, 900, AT)], reply_time(after(AT, 8), SENT));
    assert!(cache.cached_denial(&redis_plan(users), SENT).is_none());
    // The key is admitted, then that reply arrives once more: it is still not valid.
    cache.forget(users);
    cache.insert_denial(users, &[used(&user, 900, AT)], reply_time(after(AT, 8), SENT));
    assert!(cache.cached_denial(&redis_plan(users), SENT).is_none());
    // A reply from after the refund is valid.
    cache.insert_denial(users, &[used(&user, 900, AT)], reply_time(after(AT, 10), SENT));
    assert!(cache.cached_denial(&redis_plan(users), SENT).is_some());
    // Refunded again since, so the state before the first refund is not valid any more.
    cache.record_refund(users, reply_time(after(AT, 20), SENT));
    cache.restore(users, before, after(AT, 9));
    assert!(cache.cached_denial(&redis_plan(&[user.clone(), ip]), SENT).is_none());
    assert_eq!(cache.len(), 2);
}
