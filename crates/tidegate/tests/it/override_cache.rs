//! The cache of overrides in front of a config store that is slow, fails, or changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite,
    MemoryConfigStore, Scan, ScanPage, WriteResult,
};
use tidegate::overrides::{
    EditError, EditedOverride, OverrideCache, OverrideChange, OverrideEditor, OverridePlace, WILDCARDS_MAX,
};
use tidegate::rules::{self, Access, AnswerKind, Descriptor, Entry, OverrideValues, Request};
use tidegate::store::NodeStore;
use tidegate::{Clock as _, Engine, ManualClock, MemoryStore, SystemClock, Timestamp};
use tidegate_testing::config_store::put;
use tidegate_testing::fake_store::FakeStore;
use tokio::sync::Semaphore;

const RULES: &str = "
domain: api
rules:
  - { name: a, match: { kind: waits }, key: [user], limit: { limit: 5 per hour, algorithm: fixed_window } }
  - { name: b, match: { kind: hurries }, key: [user], limit: { limit: 5 per hour, algorithm: fixed_window }, override_miss: default }
  - { name: c, match: { kind: delays }, key: [user], limit: { limit: 1 per hour, algorithm: fixed_window }, action: { delay: { max_wait: 1h } } }
";

/// A store whose reads of single keys wait for permits, and that fails on demand.
#[derive(Debug)]
struct TestStore {
    inner: MemoryConfigStore,
    permits: Semaphore,
    /// Permits for reading changes.
    feed_permits: Semaphore,
    feed_reads: AtomicUsize,
    reads: AtomicUsize,
    is_away: AtomicBool,
    /// Reads of keys of this shard fail.
    away_shard: AtomicUsize,
}

/// Keys that end in 7 are in a shard of their own.
fn shard_of(key: &str) -> usize {
    usize::from(key.ends_with('7'))
}

impl TestStore {
    fn new() -> Arc<Self> {
        let inner = MemoryConfigStore::bounded(1 << 20);
        Self::over(inner)
    }

    fn over(inner: MemoryConfigStore) -> Arc<Self> {
        let all = || Semaphore::new(Semaphore::MAX_PERMITS / 2);
        Arc::new(Self {
            inner,
            permits: all(),
            feed_permits: all(),
            feed_reads: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
            away_shard: AtomicUsize::new(usize::MAX),
        })
    }

    fn check(&self) -> Result<(), ConfigStoreError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(ConfigStoreError::Unavailable("it is stopped".into())),
            false => Ok(()),
        }
    }
}

impl ConfigStore for TestStore {
    fn get<'a>(&'a self, key: &'a str) -> ConfigFuture<'a, Option<ConfigEntry>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.check()?;
            if shard_of(key) == self.away_shard.load(Ordering::SeqCst) {
                return Err(ConfigStoreError::Unavailable("its server is stopped".into()));
            }
            let entry = self.inner.get(key).await;
            self.permits.acquire().await.expect("never closed").forget();
            entry
        })
    }

    fn write<'a>(&'a self, writes: &'a [ConfigWrite]) -> ConfigFuture<'a, Vec<WriteResult>> {
        Box::pin(async move { self.check().map(|()| self.inner.write(writes))?.await })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> ConfigFuture<'a, ScanPage> {
        Box::pin(async move { self.check().map(|()| self.inner.scan(scan))?.await })
    }

    fn changes(&self, since: ConfigVersion, changes_max: usize) -> ConfigFuture<'_, Changes> {
        Box::pin(async move {
            self.feed_reads.fetch_add(1, Ordering::SeqCst);
            self.feed_permits.acquire().await.expect("never closed").forget();
            self.check().map(|()| self.inner.changes(since, changes_max))?.await
        })
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        Box::pin(async move { self.check().map(|()| self.inner.latest())?.await })
    }

    fn shard_of(&self, key: &str) -> usize {
        shard_of(key)
    }

    fn kind(&self) -> &'static str {
        "test"
    }
}

struct Node {
    store: Arc<TestStore>,
    cache: Arc<OverrideCache>,
    engine: Engine,
}

impl Node {
    fn new(store: &Arc<TestStore>, load_timeout: Duration) -> Self {
        let builder = OverrideCache::builder().load_timeout(load_timeout);
        let spawn = Arc::new(|load| drop(tokio::spawn(load)));
        let cache = Arc::new(builder.build(Arc::clone(store) as _, spawn));
        cache.tick(SystemClock::new().now());
        let engine = Engine::new(rules::parse("rules.yaml", RULES).unwrap().domains).unwrap();
        Self { store: Arc::clone(store), engine: engine.with_overrides(Arc::clone(&cache)), cache }
    }

    async fn follow(&self) {
        while self.cache.follow_changes().await.unwrap().has_more {}
    }

    async fn set_limit(&self, rule: &str, limit: u64) {
        let name = self.try_set_limit(rule, limit).await.unwrap().name;
        self.engine.overrides_changed(&[name]);
    }

    async fn try_set_limit(&self, rule: &str, limit: u64) -> Result<EditedOverride, EditError> {
        self.try_set(rule, "1", &limit_of(limit)).await
    }

    async fn try_set(
        &self,
        rule: &str,
        user: &str,
        change: &OverrideChange,
    ) -> Result<EditedOverride, EditError> {
        let place = place(rule, user);
        let rules = self.engine.rules().clone();
        let editor = OverrideEditor::new(&self.cache, &rules);
        editor.set(&place, change, None, self.engine.clock().now()).await
    }

    /// How many units remain after a request.
    async fn remaining(&self, kind: &str, user: &str) -> u64 {
        let entries = [Entry { key: "kind", value: kind }, Entry { key: "user", value: user }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        let decided = self.engine.decide(&request).await.unwrap();
        assert_eq!(decided.answer.kind, AnswerKind::Allowed);
        decided.answer.remaining
    }

    fn reads(&self) -> usize {
        self.store.reads.load(Ordering::SeqCst)
    }

    /// Lets this many reads pass, and no more. The reads that already passed are not counted.
    fn allow_reads(&self, permits: usize) {
        self.store.permits.forget_permits(usize::MAX);
        self.store.permits.add_permits(permits);
    }

    fn allow_all_reads(&self) {
        self.store.permits.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

fn place(rule: &str, user: &str) -> OverridePlace {
    OverridePlace {
        domain: "api".into(),
        rule: rule.into(),
        limit_name: None,
        key: vec![("user".into(), user.into())],
    }
}

fn limit_of(limit: u64) -> OverrideChange {
    let values = OverrideValues { limit: Some(limit), ..OverrideValues::default() };
    OverrideChange { values, ..OverrideChange::default() }
}

const LONG: Duration = Duration::from_secs(60);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Polls until the condition holds.
async fn wait_until(condition: impl Fn() -> bool) {
    let mut interval = tokio::time::interval(Duration::from_millis(1));
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        interval.tick().await;
    }
    panic!("the condition never held");
}

#[test]
fn requests_wait_for_one_shared_load() {
    runtime().block_on(async {
        let store = TestStore::new();
        Node::new(&store, LONG).set_limit("a", 100).await;
        let node = Arc::new(Node::new(&store, LONG));
        node.follow().await;
        let reads = node.reads();
        node.allow_reads(0);
        let answers = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let (node, answers) = (Arc::clone(&node), Arc::clone(&answers));
                tokio::spawn(async move {
                    let remaining = node.remaining("waits", "1").await;
                    answers.lock().unwrap().push(remaining);
                })
            })
            .collect();
        wait_until(|| node.reads() == reads + 1).await;
        assert!(answers.lock().unwrap().is_empty());
        node.allow_all_reads();
        for task in tasks {
            task.await.unwrap();
        }
        answers.lock().unwrap().sort_unstable();
        assert_eq!(*answers.lock().unwrap(), (90..100).collect::<Vec<_>>());
        assert_eq!(node.reads(), reads + 1);
    });
}

#[test]
fn a_request_waits_no_longer_than_the_deadline() {
    runtime().block_on(async {
        let store = TestStore::new();
        Node::new(&store, LONG).set_limit("a", 100).await;
        let node = Node::new(&store, Duration::from_millis(20));
        node.follow().await;
        node.allow_reads(0);
        // By the rule.
        assert_eq!(node.remaining("waits", "1").await, 4);
        node.allow_all_reads();
        // The load went on, and its result is used when it is there.
        wait_until(|| node.cache.stats().entries == 1).await;
        assert_eq!(node.remaining("waits", "1").await, 98);
    });
}

#[test]
fn a_rule_may_choose_not_to_wait() {
    runtime().block_on(async {
        let store = TestStore::new();
        Node::new(&store, LONG).set_limit("b", 100).await;
        let node = Node::new(&store, LONG);
        node.follow().await;
        node.allow_reads(0);
        assert_eq!(node.remaining("hurries", "1").await, 4);
        node.allow_all_reads();
        wait_until(|| node.cache.stats().entries == 1).await;
        assert_eq!(node.remaining("hurries", "1").await, 98);
    });
}

#[test]
fn a_change_during_a_load_is_not_lost() {
    runtime().block_on(async {
        let store = TestStore::new();
        let (node, other) = (Arc::new(Node::new(&store, LONG)), Node::new(&store, LONG));
        node.follow().await;
        other.follow().await;
        other.set_limit("a", 50).await;
        node.follow().await;
        let reads = node.reads();
        node.allow_reads(0);
        let request = tokio::spawn({
            let node = Arc::clone(&node);
            async move { node.remaining("waits", "1").await }
        });
        // It has read the old value, and has not returned it yet.
        wait_until(|| node.reads() == reads + 1).await;
        node.allow_reads(1);
        let changed = other.set_limit("a", 100);
        let changed = tokio::time::timeout(LONG, async {
            // The edit itself reads once.
            other.store.permits.add_permits(1);
            changed.await;
        });
        changed.await.unwrap();
        node.allow_all_reads();
        node.follow().await;
        let remaining = request.await.unwrap();
        // Whichever read the request waited for, the next request has the new value.
        assert!([49, 99].contains(&remaining), "{remaining}");
        assert_eq!(node.remaining("waits", "1").await, 98);
    });
}

#[test]
fn what_is_known_stays_in_use_while_the_store_is_away() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        node.follow().await;
        node.set_limit("a", 100).await;
        assert_eq!(node.remaining("waits", "1").await, 99);
        // Keys with overrides that this node has not read.
        let keys = ["2", "3"].map(|user| format!("o\u{1f}api\u{1f}a\u{1f}user={user}"));
        let writes = keys.map(|key| put(&key, br#"{"v":1,"overrides":[{"limit":50}]}"#));
        node.store.write(&writes).await.unwrap();
        node.follow().await;
        node.store.is_away.store(true, Ordering::SeqCst);
        assert!(node.cache.follow_changes().await.is_err());
        assert_eq!(node.remaining("waits", "1").await, 98);
        // A key that is not known is decided by the rule. After the first error, the store is not asked for a while.
        let reads = node.reads();
        assert_eq!(node.remaining("waits", "2").await, 4);
        assert_eq!(node.remaining("waits", "3").await, 4);
        // No other key is looked up at all.
        assert_eq!(node.remaining("waits", "4").await, 4);
        assert_eq!((node.reads() - reads, node.cache.stats().load_errors), (1, 1));
        node.store.is_away.store(false, Ordering::SeqCst);
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 97);
        assert_eq!(node.remaining("waits", "2").await, 48);
    });
}

/// A server of the config store is away. The keys of the others may be blocked.
#[test]
fn a_shard_that_is_away_does_not_hide_the_others() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        let users = (10..50).map(|user: u32| user.to_string());
        let record = br#"{"v":1,"overrides":[{"limit":50}]}"#;
        let key = |user: String| put(&format!("o\u{1f}api\u{1f}a\u{1f}user={user}"), record);
        node.store.write(&users.clone().map(key).collect::<Vec<_>>()).await.unwrap();
        node.follow().await;
        node.store.away_shard.store(1, Ordering::SeqCst);
        let reads = node.reads();
        for user in users {
            let expected = if shard_of(&user) == 1 { 4 } else { 49 };
            assert_eq!(node.remaining("waits", &user).await, expected, "{user}");
        }
        // Each key of the others, and the first key of this shard.
        assert_eq!((node.reads() - reads, node.cache.stats().load_errors), (37, 1));
    });
}

#[test]
fn another_node_sees_a_change_after_its_next_poll() {
    runtime().block_on(async {
        let store = TestStore::new();
        let (node, other) = (Node::new(&store, LONG), Node::new(&store, LONG));
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 4);
        other.set_limit("a", 100).await;
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 98);
        other.set_limit("a", 3).await;
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 0);
    });
}

#[test]
fn a_node_that_missed_changes_reads_everything_again() {
    runtime().block_on(async {
        let store = TestStore::new();
        let (node, other) = (Node::new(&store, LONG), Node::new(&store, LONG));
        node.follow().await;
        other.set_limit("a", 50).await;
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 49);
        other.set_limit("a", 100).await;
        // More changes than the log holds.
        for _ in 0..11 {
            store.inner.write(&vec![put("other", b"x"); 10_000]).await.unwrap();
        }
        node.follow().await;
        assert_eq!(node.remaining("waits", "1").await, 98);
    });
}

#[test]
fn a_record_that_cannot_be_read_is_reported_and_not_used() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        node.follow().await;
        let records: [&[u8]; 3] = [b"\xff\x00", br#"{"v":9,"overrides":[]}"#, b"{}"];
        let mut unusable = Vec::new();
        for (number, record) in (1..).zip(records) {
            let write =
                [put("o\u{1f}api\u{1f}a\u{1f}user=1", record), put("w\u{1f}api\u{1f}a\u{1f}user=1*", record)];
            node.store.write(&write).await.unwrap();
            unusable.extend(node.cache.follow_changes().await.unwrap().unusable);
            assert_eq!(node.remaining("waits", "1").await, 5 - number);
        }
        unusable.extend(node.cache.follow_changes().await.unwrap().unusable);
        // Each is named, that of the key too, and it is named once.
        let named = |kind: &str| {
            let begins = format!("the override at \"{kind}\\u{{1f}}api");
            unusable.iter().filter(|problem| problem.starts_with(&begins)).count()
        };
        assert_eq!((named("o"), named("w")), (3, 3), "{unusable:?}");
        assert_eq!(node.cache.stats().unusable_records, 6);
        // An operator mends it by setting it again.
        node.set_limit("a", 100).await;
        assert_eq!(node.remaining("waits", "1").await, 96);
    });
}

#[test]
fn a_damaged_record_can_be_deleted_but_not_unblocked() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        node.follow().await;
        let key = "o\u{1f}api\u{1f}a\u{1f}user=1";
        let (rules, now) = (node.engine.rules().clone(), node.engine.clock().now());
        let editor = OverrideEditor::new(&node.cache, &rules);
        let damage = async || node.store.write(&[put(key, b"{}")]).await.unwrap();
        damage().await;
        let refused = editor.unblock(&place("a", "1")).await;
        assert!(
            matches!(&refused, Err(EditError::Refused(reason)) if reason.contains("damaged") && reason.contains("(hint: ")),
            "{refused:?}"
        );
        assert!(node.store.get(key).await.unwrap().is_some());
        let deleted = editor.delete(&place("a", "1"), None, now).await.unwrap();
        assert!(deleted.was_damaged && deleted.before.is_none(), "{deleted:?}");
        assert_eq!(node.store.get(key).await.unwrap(), None);
        assert_eq!(editor.delete(&place("a", "1"), None, now).await, Err(EditError::NotFound));
        damage().await;
        assert!(editor.set(&place("a", "1"), &limit_of(7), None, now).await.unwrap().was_damaged);
        assert!(!editor.set(&place("a", "1"), &limit_of(7), None, now).await.unwrap().was_damaged);
        damage().await;
        node.follow().await;
        let edited = editor.set_all(&[(place("a", "1"), limit_of(7))], now).await;
        assert!(edited[0].as_ref().unwrap().was_damaged, "{edited:?}");
    });
}

#[test]
fn a_record_of_a_newer_version_is_not_overwritten() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        node.follow().await;
        let key = "o\u{1f}api\u{1f}a\u{1f}user=1";
        node.store.write(&[put(key, br#"{"v":2,"overrides":[]}"#)]).await.unwrap();
        let refused = node.try_set_limit("a", 100).await;
        assert!(
            matches!(&refused, Err(EditError::Refused(reason)) if reason.contains("newer version")),
            "{refused:?}"
        );
        let rules = node.engine.rules().clone();
        let change = OverrideChange {
            values: OverrideValues { limit: Some(9), ..OverrideValues::default() },
            ..OverrideChange::default()
        };
        let place = OverridePlace {
            domain: "api".into(),
            rule: "a".into(),
            limit_name: None,
            key: vec![("user".into(), "1".into())],
        };
        let editor = OverrideEditor::new(&node.cache, &rules);
        let results = editor.set_all(&[(place, change)], node.engine.clock().now()).await;
        assert!(
            matches!(&results[0], Err(EditError::Refused(reason)) if reason.contains("newer version")),
            "{results:?}"
        );
        assert_eq!(&*node.store.get(key).await.unwrap().unwrap().value, br#"{"v":2,"overrides":[]}"#);
    });
}

#[test]
fn a_changed_override_wakes_the_requests_of_its_key() {
    runtime().block_on(async {
        let node = Arc::new(Node::new(&TestStore::new(), LONG));
        node.follow().await;
        assert_eq!(node.remaining("delays", "1").await, 0);
        let waiting = tokio::spawn({
            let node = Arc::clone(&node);
            async move { node.remaining("delays", "1").await }
        });
        wait_until(|| node.engine.waiting_requests() == 1).await;
        node.set_limit("c", 10).await;
        assert_eq!(waiting.await.unwrap(), 8);
        assert_eq!(node.engine.waiting_requests(), 0);
    });
}

/// The node that takes an edit uses it at once, also if the store answers reads later than a decision waits.
#[test]
fn an_edit_is_used_at_once_however_slow_the_store_is() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), Duration::ZERO);
        node.follow().await;
        node.set_limit("b", 100).await;
        node.allow_reads(0);
        assert_eq!(node.remaining("hurries", "1").await, 99);
        // Its own change in the feed is known already.
        node.follow().await;
        assert_eq!(node.remaining("hurries", "1").await, 98);
    });
}

/// Another node goes on with what it knows until it has read the change, and does not fall back to the rule.
#[test]
fn a_change_by_another_node_replaces_what_is_known() {
    runtime().block_on(async {
        let store = TestStore::new();
        let (editing, other) =
            (Node::new(&store, Duration::ZERO), Arc::new(Node::new(&store, Duration::ZERO)));
        editing.set_limit("b", 100).await;
        other.follow().await;
        assert_eq!(other.remaining("hurries", "1").await, 4, "not loaded yet");
        wait_until(|| other.cache.stats().entries == 1).await;
        assert_eq!(other.remaining("hurries", "1").await, 98);
        editing.set_limit("b", 200).await;
        other.allow_reads(0);
        let reads = other.reads();
        let following = tokio::spawn({
            let other = Arc::clone(&other);
            async move { other.follow().await }
        });
        wait_until(|| other.reads() > reads).await;
        assert_eq!(other.remaining("hurries", "1").await, 97, "the old limit until the new one is read");
        other.allow_all_reads();
        following.await.unwrap();
        assert_eq!(other.remaining("hurries", "1").await, 196);
    });
}

#[test]
fn a_wildcard_applies_at_once_while_the_feed_is_busy() {
    runtime().block_on(async {
        let node = Arc::new(Node::new(&TestStore::new(), LONG));
        node.follow().await;
        // A poll of the background task hangs.
        node.store.feed_permits.forget_permits(usize::MAX);
        let feed_reads = node.store.feed_reads.load(Ordering::SeqCst);
        let following = tokio::spawn({
            let node = Arc::clone(&node);
            async move { node.follow().await }
        });
        wait_until(|| node.store.feed_reads.load(Ordering::SeqCst) > feed_reads).await;
        node.try_set("a", "an*", &limit_of(100)).await.unwrap();
        assert_eq!(node.remaining("waits", "ann").await, 99);
        let delete = {
            let rules = node.engine.rules().clone();
            let editor = OverrideEditor::new(&node.cache, &rules);
            editor.delete(&place("a", "an*"), None, node.engine.clock().now()).await
        };
        delete.unwrap();
        assert_eq!(node.remaining("waits", "ann").await, 3);
        node.store.feed_permits.add_permits(Semaphore::MAX_PERMITS / 2);
        following.await.unwrap();
        assert_eq!(node.remaining("waits", "ann").await, 2);
    });
}

/// The changes between reading everything and the first poll are those of wildcards, too.
#[test]
fn a_wildcard_that_changes_after_the_first_read_is_not_missed() {
    runtime().block_on(async {
        for round in 0..20 {
            let store = TestStore::new();
            let other = Node::new(&store, LONG);
            other.follow().await;
            other.try_set("a", "an*", &limit_of(100)).await.unwrap();
            let node = Arc::new(Node::new(&store, LONG));
            store.feed_permits.forget_permits(usize::MAX);
            let feed_reads = store.feed_reads.load(Ordering::SeqCst);
            let following = tokio::spawn({
                let node = Arc::clone(&node);
                async move { node.follow().await }
            });
            wait_until(|| store.feed_reads.load(Ordering::SeqCst) > feed_reads).await;
            // The node has read all wildcards, and no change.
            assert_eq!(node.remaining("waits", "ann").await, 99);
            let is_deleted = round % 2 == 0;
            if is_deleted {
                let rules = other.engine.rules().clone();
                let editor = OverrideEditor::new(&other.cache, &rules);
                editor.delete(&place("a", "an*"), None, other.engine.clock().now()).await.unwrap();
            } else {
                other.try_set("a", "an*", &limit_of(200)).await.unwrap();
            }
            store.feed_permits.add_permits(Semaphore::MAX_PERMITS / 2);
            following.await.unwrap();
            assert_eq!(node.remaining("waits", "ann").await, if is_deleted { 3 } else { 198 });
        }
    });
}

#[test]
fn a_wildcard_above_the_maximum_is_refused() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::over(MemoryConfigStore::bounded(256 << 20)), LONG);
        let record = br#"{"v":1,"overrides":[{"limit":50}]}"#;
        let numbers: Vec<usize> = (1..WILDCARDS_MAX).collect();
        for some in numbers.chunks(10_000) {
            let key = |number| put(&format!("w\u{1f}api\u{1f}a\u{1f}user={number}-*"), record);
            node.store.write(&some.iter().map(key).collect::<Vec<_>>()).await.unwrap();
        }
        node.follow().await;
        assert_eq!(node.cache.stats().wildcards, WILDCARDS_MAX as u64 - 1);
        let rules = node.engine.rules().clone();
        let editor = OverrideEditor::new(&node.cache, &rules);
        let edits = ["x*", "x*", "y*", "z"].map(|user| (place("a", user), limit_of(7)));
        let results = editor.set_all(&edits, node.engine.clock().now()).await;
        let is_refused = |result: &Result<EditedOverride, EditError>| {
            matches!(result, Err(EditError::Refused(reason)) if reason.contains("100000 wildcards already"))
        };
        assert_eq!(results.iter().map(is_refused).collect::<Vec<_>>(), [false, false, true, false]);
        assert!(is_refused(&node.try_set("a", "y*", &limit_of(7)).await));
        // Those that exist can be changed.
        assert_eq!(node.try_set("a", "x*", &limit_of(8)).await.unwrap().before.unwrap().values.limit, Some(7));
        assert_eq!(node.remaining("waits", "xy").await, 7);
    });
}

/// The node that takes an import uses it at once, also if the store answers reads later than a decision waits.
#[test]
fn an_import_is_used_at_once_however_slow_the_store_is() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), Duration::ZERO);
        node.follow().await;
        node.set_limit("b", 100).await;
        let rules = node.engine.rules().clone();
        let editor = OverrideEditor::new(&node.cache, &rules);
        let edits = ["1", "2"].map(|user| (place("b", user), limit_of(200)));
        let results = editor.set_all(&edits, node.engine.clock().now()).await;
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        node.allow_reads(0);
        assert_eq!(node.remaining("hurries", "1").await, 199);
        assert_eq!(node.remaining("hurries", "2").await, 199);
    });
}

/// More changes than one poll reads again.
#[test]
fn a_bulk_change_by_another_node_does_not_expose_the_rule() {
    const KEYS: u64 = 1_500;
    runtime().block_on(async {
        let store = TestStore::over(MemoryConfigStore::bounded(64 << 20));
        let (editing, other) = (Node::new(&store, Duration::ZERO), Node::new(&store, Duration::ZERO));
        let rules = editing.engine.rules().clone();
        let edits = |limit: u64| -> Vec<_> {
            (0..KEYS).map(|user| (place("b", &user.to_string()), limit_of(limit))).collect()
        };
        let editor = OverrideEditor::new(&editing.cache, &rules);
        editor.set_all(&edits(100), editing.engine.clock().now()).await;
        other.follow().await;
        for user in 0..KEYS {
            other.remaining("hurries", &user.to_string()).await;
            // Reads in progress are bounded, and a key without a read is decided by the rule.
            wait_until(|| other.cache.stats().entries > user).await;
        }
        editor.set_all(&edits(200), editing.engine.clock().now()).await;
        other.follow().await;
        other.allow_reads(0);
        for user in 0..KEYS {
            let remaining = other.remaining("hurries", &user.to_string()).await;
            assert!(remaining > 90, "{user}: {remaining}, as by the rule");
        }
        other.allow_all_reads();
    });
}

/// A request may wait under an override with another window, in another queue than that of the rule's counter.
#[test]
fn waits_for_overrides_wake_for_their_key_only() {
    runtime().block_on(async {
        let node = Arc::new(Node::new(&TestStore::new(), LONG));
        node.follow().await;
        // Another window than the rule's, so that requests wait for another counter.
        let half_hour = |limit: u64| OverrideChange {
            values: OverrideValues {
                limit: Some(limit),
                per_ns: Some(1_800_000_000_000),
                ..OverrideValues::default()
            },
            ..OverrideChange::default()
        };
        let mut waits = Vec::new();
        for user in ["1", "2"] {
            node.try_set("c", user, &half_hour(1)).await.unwrap();
            assert_eq!(node.remaining("delays", user).await, 0);
            let (node, user) = (Arc::clone(&node), user.to_owned());
            let wakes = Arc::new(CountedWakes::default());
            let mut waiting = Box::pin(async move { node.remaining("delays", &user).await });
            let waker = std::task::Waker::from(Arc::clone(&wakes));
            assert!(waiting.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
            waits.push((waiting, wakes));
        }
        wait_until(|| node.engine.waiting_requests() == 2).await;
        let counts = || [0, 1].map(|index: usize| waits[index].1.0.load(Ordering::SeqCst));
        let before = counts();
        let unlimited = OverrideChange { access: Access::Unlimited, ..OverrideChange::default() };
        let name = node.try_set("c", "1", &unlimited).await.unwrap().name;
        node.engine.overrides_changed(&[name]);
        assert_eq!(counts(), [before[0] + 1, before[1]]);
        let (waiting, _) = waits.swap_remove(0);
        waiting.await;
        assert_eq!(node.engine.waiting_requests(), 1);
    });
}

/// Counts how often a task is woken.
#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl std::task::Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A decision has one deadline, for its overrides and for the shared store.
#[test]
fn the_wait_for_overrides_is_part_of_the_deadline() {
    runtime().block_on(async {
        let store = TestStore::new();
        let node = Node::new(&store, LONG);
        for user in ["1", "2"] {
            Node::new(&store, LONG).try_set("a", user, &limit_of(100)).await.unwrap();
        }
        node.follow().await;
        let clock = ManualClock::default();
        let remote = FakeStore::new(clock.clone());
        let memory = Arc::new(MemoryStore::bounded(1 << 20));
        let node_store = NodeStore::shared(Arc::new(remote.clone()), memory);
        let domains = rules::parse("rules.yaml", RULES).unwrap().domains;
        let engine = Engine::with_store(domains, node_store, clock.clone()).unwrap();
        let engine = engine.with_overrides(Arc::clone(&node.cache));
        for (user, waits) in [("1", true), ("2", false)] {
            node.allow_reads(0);
            let entries = [Entry { key: "kind", value: "waits" }, Entry { key: "user", value: user }];
            let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
            let deciding = if waits { engine.decide(&request) } else { engine.check(&request) };
            clock.advance(Duration::from_secs(3));
            node.allow_all_reads();
            assert_eq!(deciding.await.unwrap().answer.remaining, 99);
        }
        assert_eq!(remote.spent_budgets(), [Duration::from_secs(3); 2]);
    });
}

/// Else the counters could not be asked any more.
#[test]
fn the_wait_for_overrides_leaves_half_of_the_time_to_the_counters() {
    runtime().block_on(async {
        let store = TestStore::new();
        let node = Node::new(&store, LONG);
        node.try_set("a", "1", &limit_of(100)).await.unwrap();
        // It has read no key.
        let node = Node::new(&store, LONG);
        node.follow().await;
        node.allow_reads(0);
        let clock = ManualClock::default();
        let remote = FakeStore::new(clock.clone()).with_timeout(Duration::from_millis(100));
        let node_store = NodeStore::shared(Arc::new(remote), Arc::new(MemoryStore::bounded(1 << 20)));
        let domains = rules::parse("rules.yaml", RULES).unwrap().domains;
        let engine = Engine::with_store(domains, node_store, clock).unwrap();
        let engine = engine.with_overrides(Arc::clone(&node.cache));
        let entries = [Entry { key: "kind", value: "waits" }, Entry { key: "user", value: "1" }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        let deciding = async { [engine.decide(&request).await, engine.check(&request).await] };
        let decided = tokio::time::timeout(LONG / 2, deciding).await.expect("the wait is bounded");
        assert_eq!(decided.map(|output| output.unwrap().answer.remaining), [4, 3]);
        node.allow_all_reads();
    });
}

/// A flood of new keys does not start reads without bound. Further keys are decided by the rule.
#[test]
fn reads_in_progress_are_bounded() {
    const KEYS: usize = 1_100;
    const LOADS_MAX: usize = 1_024;
    runtime().block_on(async {
        let node = Node::new(&TestStore::over(MemoryConfigStore::bounded(16 << 20)), LONG);
        let record = br#"{"v":1,"overrides":[{"limit":50}]}"#;
        let key = |user| put(&format!("o\u{1f}api\u{1f}b\u{1f}user={user}"), record);
        node.store.write(&(0..KEYS).map(key).collect::<Vec<_>>()).await.unwrap();
        node.follow().await;
        node.allow_reads(0);
        let reads = node.reads();
        for user in 0..KEYS {
            assert_eq!(node.remaining("hurries", &user.to_string()).await, 4);
        }
        assert_eq!(node.reads() - reads, LOADS_MAX);
        node.allow_all_reads();
        wait_until(|| node.cache.stats().entries == LOADS_MAX as u64).await;
        assert_eq!(node.remaining("hurries", "0").await, 48);
    });
}

/// A change that was missed does not stay unknown for ever.
#[test]
fn a_key_in_use_is_read_again_after_ten_minutes() {
    runtime().block_on(async {
        let node = Node::new(&TestStore::new(), LONG);
        node.follow().await;
        node.set_limit("a", 3).await;
        // User 2 had an override.
        node.try_set("a", "2", &limit_of(3)).await.unwrap();
        let rules = node.engine.rules().clone();
        let editor = OverrideEditor::new(&node.cache, &rules);
        editor.delete(&place("a", "2"), None, node.engine.clock().now()).await.unwrap();
        node.follow().await;
        let start = SystemClock::new().now();
        let tick_after = |seconds: u64| {
            let now = start.as_nanos() + seconds * 1_000_000_000;
            node.cache.tick(Timestamp::from_nanos(now));
        };
        tick_after(590);
        let reads = node.reads();
        assert_eq!((node.remaining("waits", "1").await, node.remaining("waits", "2").await), (2, 4));
        node.follow().await;
        assert_eq!(node.reads() - reads, 0);
        tick_after(620);
        // Requests do not wait for it.
        assert_eq!(node.remaining("waits", "1").await, 1);
        assert_eq!(node.reads() - reads, 0);
        node.follow().await;
        assert_eq!(node.reads() - reads, 1);
        assert_eq!(node.remaining("waits", "1").await, 0);
        node.follow().await;
        assert_eq!(node.reads() - reads, 1);
        // A key without an override is forgotten, and loaded by the next request.
        assert_eq!(node.remaining("waits", "2").await, 3);
        assert_eq!(node.reads() - reads, 1);
        assert_eq!(node.remaining("waits", "2").await, 2);
        assert_eq!(node.reads() - reads, 2);
        let stats = node.cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.loads), (6, 1, 1));
    });
}

#[test]
fn overrides_that_have_ended_are_deleted() {
    const SECOND_NS: u64 = 1_000_000_000;
    runtime().block_on(async {
        let store = TestStore::new();
        let (node, other) = (Node::new(&store, LONG), Node::new(&store, LONG));
        node.follow().await;
        other.follow().await;
        let start = SystemClock::new().now();
        let after = |seconds: u64| Timestamp::from_nanos(start.as_nanos() + seconds * SECOND_NS);
        assert!(node.cache.begin_purge(start).await.unwrap().is_none(), "there are no overrides");
        let blocked = Access::Blocked(rules::BlockStatus::Forbidden);
        let block =
            OverrideChange { access: blocked, expires_at: Some(after(10)), ..OverrideChange::default() };
        let window = OverrideChange {
            values: OverrideValues {
                limit: Some(9),
                per_ns: Some(60 * SECOND_NS),
                ..OverrideValues::default()
            },
            expires_at: Some(after(10)),
            ..OverrideChange::default()
        };
        let users = [
            ("ends", &block),
            ("w*", &block),
            ("keeps a window", &window),
            ("stays", &limit_of(9)),
            ("edited", &block),
        ];
        for (user, change) in users {
            node.try_set("a", user, change).await.unwrap();
        }
        let damaged = "o\u{1f}api\u{1f}a\u{1f}user=damaged";
        node.store.write(&[put(damaged, b"{")]).await.unwrap();
        other.follow().await;
        let users_left = async || {
            let editor_rules = node.engine.rules().clone();
            let editor = OverrideEditor::new(&node.cache, &editor_rules);
            let mut users = Vec::new();
            for prefix in ["o", "w"] {
                let listed = editor.list(prefix, None, 100).await.unwrap();
                users.extend(listed.entries.iter().map(|(name, _)| name.parts[0].1.to_string()));
                users.extend(listed.unusable.iter().map(|_| "damaged".to_owned()));
            }
            users.sort_unstable();
            users
        };
        let purge = async |node: &Node, now: Timestamp| {
            let mut rest = node.cache.begin_purge(now).await.unwrap();
            let began = rest.is_some();
            while let Some(purge) = rest {
                rest = node.cache.purge_some(&purge, now).await.unwrap();
            }
            began
        };
        assert!(purge(&node, after(9)).await);
        assert_eq!(users_left().await.len(), 6, "nothing has ended yet");
        // Once a day, by one node.
        assert!(!purge(&node, after(100)).await && !purge(&other, after(100)).await);
        const DAY: u64 = 24 * 3_600;
        assert!(!purge(&other, after(DAY)).await);
        node.try_set("a", "edited", &limit_of(9)).await.unwrap();
        assert!(purge(&other, after(DAY + 10)).await);
        assert_eq!(users_left().await, ["damaged", "edited", "stays"]);
        assert_eq!((node.cache.stats().purged, other.cache.stats().purged), (0, 3));
        assert_eq!((other.cache.stats().wildcards, node.cache.stats().wildcards), (0, 1));
        node.follow().await;
        assert_eq!(node.cache.stats().wildcards, 0);
        // A record of a node whose clock is a year ahead does not stop it.
        assert!(purge(&node, after(365 * DAY)).await);
        assert!(!purge(&node, after(365 * DAY + 1)).await);
        assert!(purge(&node, after(2 * DAY)).await);
    });
}

/// A window that an override had stays enforced after it has expired, so its record stays until then.
#[test]
fn a_record_stays_as_long_as_its_window() {
    const HOUR_NS: u64 = 3_600 * 1_000_000_000;
    let at = Timestamp::from_nanos;
    let expired = rules::Override { expires_at: Some(at(HOUR_NS)), ..rules::Override::default() };
    let ends = |one: &rules::Override| {
        let hours = (0..10_000_u64).find(|hours| one.has_ended(at(hours * HOUR_NS)));
        hours.unwrap_or(u64::MAX)
    };
    let values = |values: OverrideValues| rules::Override { values, ..expired.clone() };
    let limit = OverrideValues { limit: Some(5), ..OverrideValues::default() };
    assert_eq!(ends(&values(limit)), 1);
    assert_eq!(ends(&values(OverrideValues { per_ns: Some(5 * HOUR_NS), ..limit })), 6);
    assert_eq!(ends(&values(OverrideValues { sub_windows: Some(6), ..limit })), 1 + 366 * 24);
    let block = Access::Blocked(rules::BlockStatus::Forbidden);
    assert_eq!(ends(&rules::Override { access: block, ..expired.clone() }), 1);
    assert_eq!(ends(&rules::Override { expires_at: None, ..expired.clone() }), u64::MAX);
    let previous = tidegate_core::rules::PreviousValues { values: limit, tier: None, until: at(8 * HOUR_NS) };
    assert_eq!(ends(&rules::Override { previous: vec![previous], ..expired }), 8);
}
