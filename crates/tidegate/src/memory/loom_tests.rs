//! The concurrent part of the store under loom: every interleaving, with every reordering that the memory model
//! allows.
//! Pages hold one group and count as full with two keys, so the third key causes a split.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p tidegate --features rules --lib --target-dir target/loom -- loom_tests`

use loom::sync::Arc;
use loom::thread;
use tidegate_core::{Charge, Counter, OutcomeKind, Plan, Timestamp};

use super::MemoryStore;
use crate::sync::check_interleavings;

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn counter(limit: &str) -> Counter {
    Counter::new("loom", 0, limit.parse().unwrap())
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::tiny())
}

fn check(store: &MemoryStore, counter: &Counter, key: u8) -> OutcomeKind {
    check_cost(store, counter, key, 1)
}

fn check_cost(store: &MemoryStore, counter: &Counter, key: u8, cost: u64) -> OutcomeKind {
    store.check_charge(&Charge::new(&[key], counter, cost), NOW).kind
}

#[test]
fn two_threads_share_one_unit() {
    check_interleavings(4, || {
        let store = store();
        let counter = counter("{algorithm: fixed_window, limit: 1, per: 1h}");
        let other = thread::spawn({
            let (store, counter) = (store.clone(), counter.clone());
            move || check(&store, &counter, 1)
        });
        let kinds = [check(&store, &counter, 1), other.join().unwrap()];
        let allowed = kinds.iter().filter(|kind| **kind == OutcomeKind::Allowed).count();
        assert_eq!(allowed, 1);
    });
}

#[test]
fn a_reader_never_sees_half_a_write() {
    check_interleavings(4, || {
        let store = store();
        // Both words of the state change: the window's end and the count.
        let counter = counter("{algorithm: fixed_window, limit: 10, per: 1s}");
        check(&store, &counter, 1);
        let reader = thread::spawn({
            let (store, counter) = (store.clone(), counter.clone());
            move || {
                let mut plan = Plan::new();
                plan.add(Charge::new(&[1], &counter, 0)).unwrap();
                let outcome = store.peek(&plan, NOW)[0];
                (outcome.remaining, outcome.reset_after.get() / 1_000_000_000)
            }
        });
        let later = Timestamp::from_nanos(5_000_000_000);
        let written = store.check_charge(&Charge::new(&[1], &counter, 7), later).kind;
        assert_eq!(written, OutcomeKind::Allowed);
        // Either one unit used in the window that ends at 2 s, or seven in the one that ends at 6 s.
        let seen = reader.join().unwrap();
        assert!(seen == (9, 1) || seen == (3, 5), "{seen:?}");
    });
}

#[test]
fn a_copy_never_has_half_a_write() {
    check_interleavings(3, || {
        let store = store();
        let counter = counter("{algorithm: fixed_window, limit: 10, per: 1s}");
        check(&store, &counter, 1);
        let copier = thread::spawn({
            let store = store.clone();
            move || {
                let mut held = Vec::new();
                store.table.page(0).copy_to(&mut held);
                held
            }
        });
        let charge = Charge::new(&[1], &counter, 7);
        let before = store.read_packed(store.seed.tag_of_charge(&charge)).state;
        // Both words of the state change: the window's end and the count.
        let _ = store.check_charge(&charge, Timestamp::from_nanos(5_000_000_000));
        let after = store.read_packed(store.seed.tag_of_charge(&charge)).state;
        let copy = copier.join().unwrap();
        assert!(copy.len() == 1 && [before, after].contains(&copy[0].state), "{copy:?}");
    });
}

/// With a cost of two, so that the fast path has no part in it.
#[test]
fn no_key_is_lost_while_its_page_is_split() {
    check_interleavings(2, || {
        let store = store();
        let counter = counter("{algorithm: fixed_window, limit: 2, per: 1h}");
        let check = |store: &MemoryStore, counter: &Counter, key| check_cost(store, counter, key, 2);
        let [stays, moves] = keys_of_both_sides(&store, &counter);
        assert_eq!(check(&store, &counter, stays), OutcomeKind::Allowed);
        assert_eq!(check(&store, &counter, moves), OutcomeKind::Allowed);
        let reader = thread::spawn({
            let (store, counter) = (store.clone(), counter.clone());
            move || [moves, stays].map(|key| check(&store, &counter, key))
        });
        assert_eq!(check(&store, &counter, 0), OutcomeKind::Allowed);
        assert_eq!(reader.join().unwrap(), [OutcomeKind::Denied; 2]);
        assert_eq!([0, moves, stays].map(|key| check(&store, &counter, key)), [OutcomeKind::Denied; 3]);
    });
}

/// Two keys of the first page. When it is split, one stays, and the other moves to the new page.
fn keys_of_both_sides(store: &MemoryStore, counter: &Counter) -> [u8; 2] {
    let side = |key: u8| store.seed.tag_of_charge(&Charge::new(&[key], counter, 1)) & 1;
    [0, 1].map(|wanted| (1..=u8::MAX).find(|key| side(*key) == wanted).unwrap())
}

/// The units that are left of a key, without a change.
fn remaining(store: &MemoryStore, counter: &Counter, key: u8) -> u64 {
    store.peek(&Plan::of_one(Charge::new(&[key], counter, 0)), NOW)[0].remaining
}

/// The fast path looks up the page once: a key that it finds is in its own page.
#[test]
fn no_unit_is_lost_while_its_page_is_split() {
    check_interleavings(2, || {
        let store = store();
        let counter = counter("{algorithm: fixed_window, limit: 10, per: 1h}");
        let [stays, moves] = keys_of_both_sides(&store, &counter);
        let _ = [stays, moves].map(|key| check(&store, &counter, key));
        let other = thread::spawn({
            let (store, counter) = (store.clone(), counter.clone());
            move || [moves, stays].map(|key| check(&store, &counter, key))
        });
        assert_eq!(check(&store, &counter, 0), OutcomeKind::Allowed);
        assert_eq!(other.join().unwrap(), [OutcomeKind::Allowed; 2]);
        assert_eq!([0, moves, stays].map(|key| remaining(&store, &counter, key)), [9, 8, 8]);
    });
}

/// The fast path does not check the version after reading: locking the page is the check.
#[test]
fn the_units_of_two_threads_add_up() {
    for limit in [
        "{algorithm: fixed_window, limit: 10, per: 1h}",
        "{algorithm: gcra, limit: 10, per: 1h}",
        "{algorithm: sliding_window, limit: 10, per: 1h}",
    ] {
        check_interleavings(3, move || {
            let store = store();
            let counter = counter(limit);
            let _ = check(&store, &counter, 1);
            let other = thread::spawn({
                let (store, counter) = (store.clone(), counter.clone());
                move || check(&store, &counter, 1)
            });
            assert_eq!([check(&store, &counter, 1), other.join().unwrap()], [OutcomeKind::Allowed; 2]);
            assert_eq!(remaining(&store, &counter, 1), 7);
        });
    }
}

#[test]
fn crossing_plans_neither_deadlock_nor_charge_in_part() {
    check_interleavings(4, || {
        let store = store();
        let packed = counter("{algorithm: fixed_window, limit: 1, per: 1h}");
        let log = counter("{algorithm: sliding_log, limit: 1, per: 1h}");
        let decide = |store: &MemoryStore, order: [(&Counter, u8); 2]| {
            let keys = order.map(|(_, key)| [key]);
            let mut plan = Plan::new();
            for ((counter, _), key) in order.iter().zip(&keys) {
                plan.add(Charge::new(key, counter, 1)).unwrap();
            }
            let outcomes = store.check(&plan, NOW);
            usize::from(outcomes.iter().all(|outcome| outcome.kind == OutcomeKind::Allowed))
        };
        let other = thread::spawn({
            let (store, packed, log) = (store.clone(), packed.clone(), log.clone());
            move || decide(&store, [(&log, 2), (&packed, 1)])
        });
        let admitted = decide(&store, [(&packed, 1), (&log, 2)]) + other.join().unwrap();
        assert_eq!(admitted, 1);
        assert_eq!(check(&store, &packed, 1), OutcomeKind::Denied);
        assert_eq!(check(&store, &log, 2), OutcomeKind::Denied);
    });
}
