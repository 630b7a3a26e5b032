//! Walks over a store that changes whenever the walk holds no lock.

use std::collections::HashMap;
use std::convert::Infallible;

use tidegate_core::{Charge, Counter, Plan, Timestamp};

use super::MemoryStore;
use super::page::PageEntry;

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);
const MEMORY_MAX: u64 = 64 << 20;

/// A store with one counter.
struct WalkFixture {
    store: MemoryStore,
    counter: Counter,
}

impl WalkFixture {
    fn new(limit: &str) -> Self {
        let counter = Counter::new("walk", 0, limit.parse().unwrap());
        Self { store: MemoryStore::bounded(MEMORY_MAX), counter }
    }

    fn tag(&self, key: u64) -> u64 {
        self.store.seed.tag_of_charge(&Charge::new(&key.to_le_bytes(), &self.counter, 1))
    }

    fn charge(&self, key: u64) {
        let _ = self.store.check_charge(&Charge::new(&key.to_le_bytes(), &self.counter, 1), NOW);
    }

    fn reset(&self, key: u64) {
        let key = key.to_le_bytes();
        let mut plan = Plan::new();
        plan.add(Charge::new(&key, &self.counter, 0)).unwrap();
        self.store.reset(&plan);
    }
}

#[test]
fn a_walk_misses_no_key_while_pages_split_and_sees_the_newest_state_last() {
    const KEYS: u64 = 20_000;
    let fixture = WalkFixture::new("{algorithm: fixed_window, limit: 1000000, per: 1h}");
    (0..KEYS).for_each(|key| fixture.charge(key));
    let mut visited = HashMap::new();
    let (mut entries, mut next_key) = (0, KEYS);
    let walked: Result<(), Infallible> = fixture.store.table.walk(|page| {
        for PageEntry { tag, state, .. } in page {
            let before = visited.insert(*tag, *state);
            assert!(before.is_none_or(|before| before <= *state), "the later state is older");
        }
        entries += page.len() as u64;
        // As many new keys as a page holds, and another unit for some old keys.
        if next_key + 150 <= 2 * KEYS {
            (next_key..next_key + 150).for_each(|key| fixture.charge(key));
            (next_key..next_key + 150).for_each(|key| fixture.charge(key % KEYS));
            next_key += 150;
        }
        Ok(())
    });
    walked.unwrap();
    let split_after_its_copy = entries - visited.len() as u64;
    assert!(split_after_its_copy > 1_000, "only {split_after_its_copy} keys moved during the walk");
    for key in 0..KEYS {
        let used = visited.get(&fixture.tag(key)).map(|state| state.to_words()[1]);
        assert!(matches!(used, Some(1 | 2)), "key {key} was seen with {used:?}");
    }
}

#[test]
fn a_walk_misses_no_usage_log_while_others_are_removed() {
    const KEYS: u64 = 200_000;
    // Every third key is removed at some time during the walk, in no particular order.
    let is_removed = |key: u64| key.is_multiple_of(3);
    let fixture = WalkFixture::new("{algorithm: sliding_log, limit: 10, per: 1h}");
    (0..KEYS).for_each(|key| fixture.charge(key));
    let mut visited: HashMap<u64, u64> = HashMap::new();
    let mut step = 0;
    let walked: Result<(), Infallible> = fixture.store.usage_logs.walk(NOW, |log| {
        *visited.entry(log.tag).or_default() += 1;
        let key = step * 7_919 % KEYS;
        if is_removed(key) {
            fixture.reset(key);
            // Some keys come back, and some are new.
            fixture.charge(if key.is_multiple_of(2) { key } else { KEYS + key });
        }
        step += 1;
        Ok(())
    });
    walked.unwrap();
    let missed =
        (0..KEYS).filter(|key| !is_removed(*key) && !visited.contains_key(&fixture.tag(*key))).count();
    assert_eq!(missed, 0, "of {} that existed throughout", KEYS - KEYS / 3);
    assert!(visited.values().any(|times| *times > 1), "no state moved during the walk");
}
