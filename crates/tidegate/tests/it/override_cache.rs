//! The cache of overrides in front of a config store that is slow, fails, or changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::config::{
    Changes, ConfigEntry, ConfigFuture, ConfigStore, ConfigStoreError, ConfigVersion, ConfigWrite,
    MemoryConfigStore, Scan, ScanPage, WriteResult,
};
use tidegate::overrides::{
    EditError, EditedOverride, OverrideCache, OverrideChange, OverrideEditor, OverridePlace,
};
use tidegate::rules::{self, AnswerKind, Descriptor, Entry, OverrideValues, Request};
use tidegate::{Clock as _, Engine, SystemClock};
use tidegate_testing::config_store::put;
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
    reads: AtomicUsize,
    is_away: AtomicBool,
}

impl TestStore {
    fn new() -> Arc<Self> {
        let inner = MemoryConfigStore::bounded(1 << 20);
        let permits = Semaphore::new(Semaphore::MAX_PERMITS / 2);
        Arc::new(Self { inner, permits, reads: AtomicUsize::new(0), is_away: AtomicBool::new(false) })
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
        Box::pin(async move { self.check().map(|()| self.inner.changes(since, changes_max))?.await })
    }

    fn latest(&self) -> ConfigFuture<'_, ConfigVersion> {
        Box::pin(async move { self.check().map(|()| self.inner.latest())?.await })
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
        let place = OverridePlace {
            domain: "api".into(),
            rule: rule.into(),
            limit_name: None,
            key: vec![("user".into(), "1".into())],
        };
        let values = OverrideValues { limit: Some(limit), ..OverrideValues::default() };
        let change = OverrideChange { values, ..OverrideChange::default() };
        let rules = self.engine.rules().clone();
        let editor = OverrideEditor::new(&self.cache, &rules);
        editor.set(&place, &change, None, self.engine.clock().now()).await
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
        for (number, record) in (1..).zip(records) {
            let write =
                [put("o\u{1f}api\u{1f}a\u{1f}user=1", record), put("w\u{1f}api\u{1f}a\u{1f}user=1*", record)];
            node.store.write(&write).await.unwrap();
            let changes = node.cache.follow_changes().await.unwrap();
            assert_eq!(changes.unusable.len(), 1, "{:?}", changes.unusable);
            assert_eq!(node.remaining("waits", "1").await, 5 - number);
        }
        assert_eq!(node.cache.stats().unusable_records, 6);
        // An operator mends it by setting it again.
        node.set_limit("a", 100).await;
        assert_eq!(node.remaining("waits", "1").await, 96);
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
