//! No key that has an override is ever taken for one without: a model with edits by two nodes, changes in the middle of a
//! scan, and gaps in the log of changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigVersion, ConfigWrite, MemoryConfigStore, Scan,
    ScanPage, WriteResult,
};
use tidegate::overrides::{OverrideCache, OverrideChange, OverrideEditor, OverridePlace};
use tidegate::rules::{self, Access, BlockStatus, Descriptor, Entry, Request};
use tidegate::{Engine, Timestamp};
use tidegate_testing::config_store::{delete, put};
use tidegate_testing::proptest_config;

use crate::engine::shared_engine::expect_ready;

const RULES: &str = "{ domain: api, rules: [ { name: a, key: [user], limit: 1000000 per second } ] }";
const BLOCKED: &[u8] = br#"{"v":1,"overrides":[{"access":"blocked"}]}"#;
const KEYS: u8 = 12;
/// So that a scan of all keys has several pages.
const PAGE_ENTRIES_MAX: usize = 3;

/// A change of a key: whether it is blocked from then on.
type Edit = (u8, bool);

/// A store in which other nodes make edits while calls are under way.
#[derive(Debug)]
struct BusyStore {
    inner: MemoryConfigStore,
    /// One for each of the next calls: before it reads, and after it.
    edits: Mutex<VecDeque<(Option<Edit>, Option<Edit>)>>,
    /// Scans do not see these keys yet.
    unscanned: Mutex<BTreeSet<Box<str>>>,
}

impl BusyStore {
    fn edit(&self, edit: Option<Edit>) {
        let Some((user, is_blocked)) = edit else { return };
        let name = format!("o\u{1f}api\u{1f}a\u{1f}user={user}");
        let write = if is_blocked { put(&name, BLOCKED) } else { delete(&name) };
        expect_ready(self.inner.write(&[write])).unwrap();
    }

    /// The reply of a call that reads, with edits around it.
    fn read<'a, T>(&'a self, read: impl FnOnce() -> ConfigFuture<'a, T>) -> ConfigFuture<'a, T> {
        let (before, after) = self.edits.lock().unwrap().pop_front().unwrap_or_default();
        self.edit(before);
        let reply = read();
        self.edit(after);
        reply
    }

    /// More other changes than the log keeps, so that it loses all earlier ones.
    fn overflow_log(&self) {
        for _ in 0..11 {
            expect_ready(self.inner.write(&vec![put("other", b"x"); 10_000])).unwrap();
        }
    }

    fn is_blocked(&self, user: u8) -> bool {
        let name = format!("o\u{1f}api\u{1f}a\u{1f}user={user}");
        expect_ready(self.inner.get(&name)).unwrap().is_some()
    }
}

impl ConfigStore for BusyStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        self.inner.get(key)
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        self.inner.write(writes)
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        let entries_max = scan.entries_max.min(PAGE_ENTRIES_MAX);
        let page = self.read(|| self.inner.scan(Scan { entries_max, ..scan }));
        Box::pin(async move {
            let mut page = page.await?;
            page.entries.retain(|entry| !self.unscanned.lock().unwrap().contains(&entry.key));
            Ok(page)
        })
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        self.read(|| self.inner.changes(since, changes_max.min(PAGE_ENTRIES_MAX)))
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        self.read(|| self.inner.latest())
    }

    fn kind(&self) -> &'static str {
        "test"
    }
}

struct Node {
    store: Arc<BusyStore>,
    cache: Arc<OverrideCache>,
    engine: Engine,
}

impl Node {
    fn new() -> Self {
        Self::with_filter(128 << 20)
    }

    fn with_filter(filter_bytes_max: usize) -> Self {
        let inner = MemoryConfigStore::bounded(64 << 20);
        let store = Arc::new(BusyStore { inner, edits: Mutex::default(), unscanned: Mutex::default() });
        let spawn = Arc::new(|_| panic!("a store in memory answers immediately"));
        let builder = OverrideCache::builder().filter_bytes_max(filter_bytes_max);
        let cache = Arc::new(builder.build(Arc::clone(&store) as _, spawn));
        let engine = Engine::new(rules::parse("rules.yaml", RULES).unwrap().domains).unwrap();
        Self { store, engine: engine.with_overrides(Arc::clone(&cache)), cache }
    }

    /// One call. Returns whether more can be read.
    fn follow(&self) -> bool {
        expect_ready(self.cache.follow_changes()).unwrap().has_more
    }

    /// Edits a key. Returns false if there was nothing to delete.
    fn edit(&self, (user, is_blocked): Edit) -> bool {
        let place = OverridePlace {
            domain: "api".into(),
            rule: "a".into(),
            limit_name: None,
            key: vec![("user".into(), user.to_string().into())],
        };
        let access = Access::Blocked(BlockStatus::TooManyRequests);
        let change = OverrideChange { access, ..OverrideChange::default() };
        let (rules, now) = (self.engine.rules(), Timestamp::from_nanos(1));
        let editor = OverrideEditor::new(&self.cache, &rules);
        match is_blocked {
            true => expect_ready(editor.set(&place, &change, None, now)).is_ok(),
            false => expect_ready(editor.delete(&place, None, now)).is_ok(),
        }
    }

    fn is_blocked(&self, user: &str) -> bool {
        let entries = [Entry { key: "user", value: user }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        !self.engine.check(&request).unwrap().kind.passes()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// This node edits a key.
    Own(Edit),
    /// Another node edits a key.
    Other(Edit),
    /// A poll of the changes, with edits by other nodes around its calls.
    Follow(Vec<(Option<Edit>, Option<Edit>)>),
    /// A request asks about a key.
    Ask(u8),
    OverflowLog,
}

fn edit() -> impl Strategy<Value = Edit> {
    (0..KEYS, prop::bool::weighted(0.7))
}

fn step() -> impl Strategy<Value = Step> {
    let edits = prop::collection::vec((prop::option::of(edit()), prop::option::of(edit())), 0..8);
    prop_oneof![
        4 => edit().prop_map(Step::Own),
        4 => edit().prop_map(Step::Other),
        6 => edits.prop_map(Step::Follow),
        4 => (0..KEYS).prop_map(Step::Ask),
        1 => Just(Step::OverflowLog),
    ]
}

proptest! {
    #![proptest_config(proptest_config(60))]
    #[test]
    fn no_key_with_an_override_is_missed(steps in prop::collection::vec(step(), 1..40)) {
        let node = Node::new();
        let mut own: BTreeMap<u8, bool> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Own(edit) => {
                    if node.edit(edit) {
                        own.insert(edit.0, edit.1);
                    }
                }
                Step::Other(edit) => {
                    node.store.edit(Some(edit));
                    own.remove(&edit.0);
                }
                Step::Follow(edits) => {
                    let edited: Vec<u8> =
                        edits.iter().flat_map(|(before, after)| [before, after]).flatten().map(|edit| edit.0).collect();
                    own.retain(|user, _| !edited.contains(user));
                    node.store.edits.lock().unwrap().extend(edits);
                    node.follow();
                    node.store.edits.lock().unwrap().clear();
                }
                Step::Ask(user) => drop(node.is_blocked(&user.to_string())),
                Step::OverflowLog => node.store.overflow_log(),
            }
            // An edit of this node is used at once, until another node edits the key.
            for (user, is_blocked) in &own {
                prop_assert_eq!(node.is_blocked(&user.to_string()), *is_blocked, "user {}", user);
            }
        }
        // When the node has all changes, it has the overrides of the store.
        while node.follow() {}
        prop_assert!(node.cache.stats().is_filter_built);
        for user in 0..KEYS {
            prop_assert_eq!(node.is_blocked(&user.to_string()), node.store.is_blocked(user), "user {}", user);
        }
    }
}

/// More keys than the first filter has room for, read from the store and then added.
#[test]
fn a_filter_grows_with_the_keys() {
    const KEYS: u32 = 150_000;
    let node = Node::new();
    let name = |number: u32| format!("o\u{1f}api\u{1f}a\u{1f}user={number}");
    let write = |numbers: std::ops::Range<u32>| {
        for from in numbers.step_by(10_000) {
            let writes: Vec<_> = (from..from + 10_000).map(|number| put(&name(number), BLOCKED)).collect();
            expect_ready(node.store.inner.write(&writes)).unwrap();
        }
    };
    write(0..100_000);
    while node.follow() {}
    let first = node.cache.stats();
    write(100_000..KEYS);
    while node.follow() {}
    let grown = node.cache.stats();
    assert!(first.is_filter_built && grown.is_filter_built);
    assert!(grown.filter_bytes >= first.filter_bytes);
    assert!((0..KEYS).step_by(97).all(|number| node.is_blocked(&number.to_string())));
    // Nearly no other key is looked up in the store.
    let loads = node.cache.stats().loads;
    assert!((0..1_000).all(|number| !node.is_blocked(&format!("x{number}"))));
    assert!(node.cache.stats().loads - loads < 50);
}

/// The log of DynamoDB may list a change before a scan sees it.
#[test]
fn a_filter_that_grows_has_keys_that_its_scan_does_not_see_yet() {
    // The first filter is made for 131,072 keys.
    const KEYS: u32 = 90_000;
    const MORE_KEYS: u32 = 140_000;
    let node = Node::with_filter(1 << 20);
    let name = |number: u32| format!("o\u{1f}api\u{1f}a\u{1f}user={number}");
    let write = |numbers: std::ops::Range<u32>| {
        for from in numbers.step_by(10_000) {
            let writes: Vec<_> = (from..from + 10_000).map(|number| put(&name(number), BLOCKED)).collect();
            expect_ready(node.store.inner.write(&writes)).unwrap();
        }
    };
    write(0..KEYS);
    while node.follow() {}
    let first = node.cache.stats();
    // Not all of a page.
    let unscanned = || (KEYS..MORE_KEYS).step_by(5);
    *node.store.unscanned.lock().unwrap() = unscanned().map(|number| name(number).into()).collect();
    write(KEYS..MORE_KEYS);
    while node.follow() {}
    let grown = node.cache.stats();
    assert!(first.is_filter_built && grown.is_filter_built && grown.filter_bytes > first.filter_bytes);
    let missed: Vec<u32> = unscanned().filter(|number| !node.is_blocked(&number.to_string())).collect();
    assert_eq!(missed, [0; 0]);
}
