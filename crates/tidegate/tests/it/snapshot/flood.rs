//! A flood of keys after a restart: the snapshot says which limit a state belongs to.

use tidegate::MemoryStore;
use tidegate::store::{Charge, Counter};

use crate::snapshot::{NOW, TestDirectory};

const SMALL: u64 = 1 << 20;
/// Three times the keys that fit.
const KEYS: u64 = 100_000;

#[test]
fn a_flood_does_not_evict_the_restored_counters_of_another_limit() {
    let directory = TestDirectory::new();
    let [ip, email] = [("ip", "10 per minute"), ("email", "1 per day")]
        .map(|(rule, limit)| Counter::new(rule, 0, limit.parse().unwrap()));
    let check = |store: &MemoryStore, counter: &Counter, key: &[u8]| {
        store.check_charge(&Charge::new(key, counter, 1), NOW).is_allowed()
    };
    let store = MemoryStore::bounded(SMALL);
    assert_eq!((0..20).filter(|_| check(&store, &ip, b"1.2.3.4")).count(), 10);
    (0..KEYS).for_each(|key| assert!(check(&store, &email, &key.to_le_bytes())));
    assert!(!check(&store, &ip, b"1.2.3.4"));
    store.snapshot(directory.file(), NOW).unwrap();

    let store = MemoryStore::restore(directory.file(), SMALL, NOW).store;
    for key in KEYS..2 * KEYS {
        assert!(check(&store, &email, &key.to_le_bytes()));
        assert!(!check(&store, &ip, b"1.2.3.4"), "after {key} keys");
    }
    assert!(store.stats().live_evictions > KEYS / 2, "{:?}", store.stats());
}
