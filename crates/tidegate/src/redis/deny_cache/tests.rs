use tidegate_core::algorithm::Counting;
use tidegate_core::{Ask, Counter, Ledger, Packed};

use super::shard::{SHARD_ENTRIES_MAX, SHARD_HEAP_BYTES_MAX};
use super::*;
use crate::{IntoLimit, Wait};
use tidegate_core::DenyCache as Caching;
use tidegate_core::Op;

const SECOND_NS: u64 = 1_000_000_000;
/// By the clock of Redis, which is ahead, and by that of this process.
const AT: Timestamp = Timestamp::from_nanos(5_000 * SECOND_NS);
const SENT: Timestamp = Timestamp::from_nanos(1_000 * SECOND_NS);

fn after(instant: Timestamp, ns: u64) -> Timestamp {
    instant.saturating_add(Nanos::new(ns.into()))
}

fn charge(key: &str, text: &str, cost: u64) -> OrderCharge {
    let counter = Counter::new("rule", 0, text.into_limit().unwrap());
    OrderCharge {
        key: KeyName::from_slice(key.as_bytes()),
        algorithm: counter.algorithm().clone(),
        cost,
        role: Role::Enforced,
        counts_from: None,
        deny_cache: tidegate_core::DenyCache::On,
    }
}

fn order(charges: &[OrderCharge]) -> Order {
    Order::new(Op::Check, charges.iter().cloned().collect())
}

/// The state of a key that used so much.
fn used(charge: &OrderCharge, cost: u64, at: Timestamp) -> KeyState {
    let ask = Ask { now: at, cost };
    match &charge.algorithm {
        Algorithm::Packed(algorithm) => {
            let mut state = Packed::NEVER_SEEN;
            algorithm.charge(&mut state, ask);
            KeyState::Packed(state)
        }
        Algorithm::Ledger(algorithm) => {
            let mut state = Ledger::default();
            algorithm.charge(&mut state, ask);
            KeyState::Ledger(state)
        }
        Algorithm::Leases(_) => unreachable!("no test has leases"),
    }
}

fn seen_at(at: Timestamp, sent: Timestamp) -> SeenAt {
    SeenAt { at, sent }
}

/// 10 a second, all of them used.
fn over(cache: &DenyCache) -> OrderCharge {
    let charge = charge("key", "10/s burst 10", 1);
    cache.keep(std::slice::from_ref(&charge), &[used(&charge, 10, AT)], seen_at(AT, SENT));
    charge
}

#[test]
fn a_denial_lasts_until_it_may_be_admitted_at_the_latest_time_that_it_can_be() {
    let cache = DenyCache::new();
    let order = order(&[over(&cache)]);
    // A tenth of a second after the call was sent a unit may be there.
    let denied = cache.denial(&order, after(SENT, SECOND_NS / 10 - 1)).unwrap();
    assert_eq!(denied.at, after(AT, SECOND_NS / 10 - 1));
    assert_eq!(denied.outcomes[0].retry_after, Wait::of(Nanos::new(1)));
    assert!(cache.denial(&order, after(SENT, SECOND_NS / 10)).is_none());
    let uncached = OrderCharge { deny_cache: Caching::Off, ..order.charges[0].clone() };
    assert!(cache.denial(&self::order(&[uncached]), SENT).is_none());
}

#[test]
fn what_was_seen_is_good_for_a_second_and_gone_after_it() {
    let cache = DenyCache::new();
    let never = charge("key", "{algorithm: gcra, limit: 10, per: 1h}", 1);
    cache.keep(std::slice::from_ref(&never), &[used(&never, 10, AT)], seen_at(AT, SENT));
    let order = order(&[never]);
    assert!(cache.denial(&order, after(SENT, KEPT_NS_MAX - 1)).is_some());
    assert!(cache.denial(&order, after(SENT, KEPT_NS_MAX)).is_none());
    assert_eq!(cache.len(), 0);
}

#[test]
fn a_plan_is_denied_only_if_all_of_its_keys_are_known() {
    let cache = DenyCache::new();
    let both = order(&[over(&cache), charge("other", "5/s", 1)]);
    assert!(cache.denial(&both, SENT).is_none());
    cache.keep(&both.charges[1..], &[KeyState::Packed(Packed::NEVER_SEEN)], seen_at(AT, SENT));
    let denied = cache.denial(&both, SENT).unwrap();
    assert_eq!(denied.outcomes.len(), 2);
    assert_eq!(denied.outcomes[1].remaining, 5);
    // The limit that is over must be asked for.
    let uncached = OrderCharge { deny_cache: Caching::Off, ..both.charges[0].clone() };
    assert!(cache.denial(&order(&[uncached, both.charges[1].clone()]), SENT).is_none());
}

#[test]
fn what_was_given_back_makes_what_was_seen_before_it_useless() {
    let cache = DenyCache::new();
    let charge = over(&cache);
    let (charges, order) = (std::slice::from_ref(&charge), order(std::slice::from_ref(&charge)));
    cache.given_back(charges, seen_at(after(AT, 5), SENT));
    assert!(cache.denial(&order, SENT).is_none());
    // Replies from before it, and from the same instant, that come after it.
    for at in [after(AT, 4), after(AT, 5)] {
        cache.keep(charges, &[used(&charge, 10, AT)], seen_at(at, SENT));
        assert!(cache.denial(&order, SENT).is_none());
    }
    cache.keep(charges, &[used(&charge, 10, AT)], seen_at(after(AT, 6), SENT));
    assert!(cache.denial(&order, SENT).is_some());
    cache.forget(charges);
    assert!(cache.denial(&order, SENT).is_none());
}

#[test]
fn entries_and_bytes_have_bounds_and_the_newest_stay() {
    let cache = DenyCache::new();
    let text = "{algorithm: sliding_log, limit: 250, per: 1h}";
    for number in 0..3 * ENTRIES_MAX {
        let charge = charge(&format!("key:{number}"), "10/s burst 10", 1);
        cache.keep(std::slice::from_ref(&charge), &[used(&charge, 10, AT)], seen_at(AT, SENT));
    }
    assert!(cache.len() <= ENTRIES_MAX && cache.len() > ENTRIES_MAX / 2, "{}", cache.len());
    let newest = charge(&format!("key:{}", 3 * ENTRIES_MAX - 1), "10/s burst 10", 1);
    assert!(cache.denial(&order(&[newest]), SENT).is_some());
    // One key that is entered over and over takes one entry.
    let cache = DenyCache::new();
    for number in 0..5_000 {
        let charge = over(&cache);
        cache.keep(std::slice::from_ref(&charge), &[used(&charge, 10, AT)], seen_at(after(AT, number), SENT));
    }
    assert_eq!(cache.len(), 1);
    let entered: usize = cache.shards.iter().map(|shard| lock(shard).entered.len()).sum();
    assert!(entered <= SHARD_ENTRIES_MAX);
    let log = charge("log", text, 1);
    let Algorithm::Ledger(algorithm) = &log.algorithm else { panic!("a log is a ledger") };
    let mut large = Ledger::default();
    for number in 0..2_000 {
        algorithm.charge(&mut large, Ask { now: after(AT, number), cost: 1 });
    }
    assert!((STATE_HEAP_BYTES_MAX / 2..=STATE_HEAP_BYTES_MAX).contains(&large.heap_bytes()));
    let state = KeyState::Ledger(large);
    for number in 0..2_000 {
        let charge = charge(&format!("log:{number}"), text, 1);
        cache.keep(std::slice::from_ref(&charge), std::slice::from_ref(&state), seen_at(AT, SENT));
    }
    for shard in &cache.shards {
        let shard = lock(shard);
        let held: usize = shard.by_key.values().map(|entry| heap_bytes(entry.state.as_deref())).sum();
        assert_eq!(held, shard.heap_bytes);
        assert!(held <= SHARD_HEAP_BYTES_MAX, "{held}");
    }
}

#[test]
fn plans_that_count_attempts_or_hold_leases_are_not_kept() {
    let plain = charge("plain", "10/s", 1);
    let kept = |charges: &[OrderCharge]| Denials::of(&order(charges)) == Denials::Kept;
    let uncached = OrderCharge { deny_cache: Caching::Off, ..plain.clone() };
    assert!(kept(std::slice::from_ref(&plain)));
    assert!(!kept(std::slice::from_ref(&uncached)));
    let texts = [
        "{algorithm: sliding_log, limit: 1, per: 1h, count_denied: true}",
        "{algorithm: concurrency, limit: 1, ttl: 1h}",
    ];
    for text in texts {
        assert!(!kept(&[plain.clone(), charge("other", text, 1)]), "{text}");
    }
    let looks_on = OrderCharge { role: Role::Observed, ..plain.clone() };
    assert!(!kept(std::slice::from_ref(&looks_on)));
    assert!(kept(&[looks_on, plain]));
}

/// What was seen before a plan was charged, which others had charged too and have given back since.
#[test]
fn what_was_there_before_a_plan_was_charged_and_given_back_denies_nothing_and_says_what_remains() {
    let cache = DenyCache::new();
    let user = charge("user", "{algorithm: sliding_log, limit: 1000, per: 1h}", 600);
    let ip = charge("ip", "10/s burst 10", 1);
    let (users, ips) = (std::slice::from_ref(&user), std::slice::from_ref(&ip));
    // Plans of 500 and 400 were charged one after the other, and both came back at the same time.
    cache.given_back(users, seen_at(after(AT, 9), SENT));
    let before = [used(&user, 500, AT)];
    let before = Before { states: &before, seen: seen_at(AT, SENT) };
    cache.restore(users, before, after(AT, 9));
    cache.restore(users, Before { states: &[used(&user, 0, AT)], ..before }, after(AT, 9));
    assert!(cache.denial(&order(users), SENT).is_none());
    // With a key that is known to deny, it is known what remains of this one, about.
    cache.keep(ips, &[used(&ip, 10, AT)], seen_at(AT, SENT));
    let denied = cache.denial(&order(&[user.clone(), ip.clone()]), SENT).unwrap();
    assert_eq!((denied.outcomes[0].remaining, denied.outcomes[1].remaining), (500, 0));
    // With what was charged in between another plan was denied, which is heard of later.
    cache.keep(users, &[used(&user, 900, AT)], seen_at(after(AT, 8), SENT));
    assert!(cache.denial(&order(users), SENT).is_none());
    // Admitted, and then that reply once more: it is still not to be believed.
    cache.forget(users);
    cache.keep(users, &[used(&user, 900, AT)], seen_at(after(AT, 8), SENT));
    assert!(cache.denial(&order(users), SENT).is_none());
    // What was seen after it is.
    cache.keep(users, &[used(&user, 900, AT)], seen_at(after(AT, 10), SENT));
    assert!(cache.denial(&order(users), SENT).is_some());
    // Given back by others since, so what was there before is not what is there.
    cache.given_back(users, seen_at(after(AT, 20), SENT));
    cache.restore(users, before, after(AT, 9));
    assert!(cache.denial(&order(&[user.clone(), ip]), SENT).is_none());
    assert_eq!(cache.len(), 2);
}
