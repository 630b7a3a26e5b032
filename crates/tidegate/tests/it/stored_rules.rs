//! Rules in a config store: pushes, rollbacks, emergency rules, and what a reader sees.

use std::sync::Arc;

use tidegate::Timestamp;
use tidegate::config::{ConfigStore, ConfigWrite, MemoryConfigStore, Scan, WriteCondition};
use tidegate::rules::{LoadOptions, Report, RulesText, parse_all};
use tidegate::stored_rules::{
    EditContext, EditedRules, LayeredRules, PushError, REVISIONS_MAX, RulesEdit, RulesStore,
};

struct Fixture {
    config: Arc<MemoryConfigStore>,
    rules: RulesStore,
}

impl Fixture {
    fn new() -> Self {
        let config = Arc::new(MemoryConfigStore::bounded(64 << 20));
        let rules = RulesStore::new(Arc::clone(&config) as _);
        Self { config, rules }
    }

    async fn edit(&self, edit: &RulesEdit, seconds: u64) -> Result<EditedRules<usize>, PushError> {
        self.rules.edit(edit, &EditContext::default(), at(seconds), check).await
    }

    /// The texts in force, by their first limit.
    async fn active(&self, seconds: u64) -> LayeredRules {
        let history = self.rules.history().await.unwrap();
        self.rules.layered(&history, at(seconds)).await.unwrap()
    }

    async fn names(&self, seconds: u64) -> Vec<String> {
        let files = self.active(seconds).await.files(at(seconds));
        files.into_iter().map(|file| format!("{}: {}", file.name, file.text)).collect()
    }

    async fn keys(&self) -> usize {
        let scan = Scan { prefix: "r\u{1f}bundle", after: None, entries_max: 10_000 };
        self.config.scan(scan).await.unwrap().entries.len()
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(1_800_000_000_000_000_000 + seconds * 1_000_000_000)
}

fn text(rule: &str) -> String {
    format!("domain: api\nrules: [ {{ name: {rule}, key: [user], limit: 5 per second }} ]")
}

fn files(rules: &[&str]) -> Vec<RulesText> {
    rules
        .iter()
        .map(|rule| RulesText { name: format!("{rule}.yaml").into(), text: text(rule).into() })
        .collect()
}

fn push(rules: &[&str]) -> RulesEdit {
    RulesEdit::Push(files(rules))
}

fn emergency(rules: &[&str], end: u64) -> RulesEdit {
    RulesEdit::Emergency { files: files(rules), expires_at: at(end) }
}

/// Returns the number of rules.
fn check(files: &[RulesText]) -> Result<usize, Report> {
    let loaded = parse_all(files, LoadOptions::default())?;
    Ok(loaded.domains.iter().map(|domain| domain.rules.len()).sum())
}

fn shown(rules: &[(&str, &str)]) -> Vec<String> {
    rules.iter().map(|(name, rule)| format!("{name}.yaml: {}", text(rule))).collect()
}

#[tokio::test]
async fn a_push_replaces_all_rules() {
    let fixture = Fixture::new();
    assert_eq!(fixture.active(0).await, LayeredRules::default());
    let first = fixture.edit(&push(&["a", "b"]), 0).await.unwrap();
    assert_eq!((first.checked, first.history.last_number()), (2, 1));
    assert_eq!(fixture.names(0).await, shown(&[("a", "a"), ("b", "b")]));
    fixture.edit(&push(&["c"]), 1).await.unwrap();
    assert_eq!(fixture.names(1).await, shown(&[("c", "c")]));
}

#[tokio::test]
async fn broken_rules_are_refused_and_nothing_changes() {
    let fixture = Fixture::new();
    fixture.edit(&push(&["a"]), 0).await.unwrap();
    let broken =
        RulesText { name: "broken.yaml".into(), text: "domain: api\nrules: [ { limit: 5 } ]".into() };
    let error = fixture.edit(&RulesEdit::Push(vec![broken]), 1).await.unwrap_err();
    assert!(matches!(&error, PushError::Invalid(report) if report.errors() > 0), "{error}");
    // Two rules of one name do not fit together.
    let error = fixture.edit(&emergency(&["a"], 60), 1).await.unwrap_err();
    assert!(matches!(error, PushError::Invalid(_)), "{error}");
    assert!(matches!(fixture.edit(&RulesEdit::Push(Vec::new()), 1).await, Err(PushError::Refused(_))));
    assert_eq!(fixture.rules.history().await.unwrap().last_number(), 1);
    assert_eq!(fixture.keys().await, 1, "refused files are not stored");
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let fixture = Fixture::new();
    let context = EditContext::default();
    let tried = fixture.rules.dry_run(&push(&["a", "b"]), &context, at(0), check).await.unwrap();
    assert_eq!(tried.checked, 2);
    assert_eq!((fixture.rules.history().await.unwrap().last_number(), fixture.keys().await), (0, 0));
}

#[tokio::test]
async fn a_rollback_goes_back_one_push_at_a_time_or_to_a_revision() {
    let fixture = Fixture::new();
    for (second, rule) in (0..).zip(["a", "b", "c"]) {
        fixture.edit(&push(&[rule]), second).await.unwrap();
    }
    let back = |to| RulesEdit::Rollback { to };
    fixture.edit(&back(None), 10).await.unwrap();
    assert_eq!(fixture.names(10).await, shown(&[("b", "b")]));
    fixture.edit(&back(None), 11).await.unwrap();
    assert_eq!(fixture.names(11).await, shown(&[("a", "a")]));
    let error = fixture.edit(&back(None), 12).await.unwrap_err();
    assert!(error.to_string().contains("no earlier revision"), "{error}");
    fixture.edit(&back(Some(3)), 13).await.unwrap();
    assert_eq!(fixture.names(13).await, shown(&[("c", "c")]));
    let error = fixture.edit(&back(Some(99)), 14).await.unwrap_err();
    assert!(error.to_string().contains("no revision 99"), "{error}");
}

#[tokio::test]
async fn emergency_rules_come_on_top_and_end() {
    let fixture = Fixture::new();
    fixture.edit(&push(&["a"]), 0).await.unwrap();
    fixture.edit(&emergency(&["x"], 60), 1).await.unwrap();
    let pushed = fixture.edit(&emergency(&["y"], 90), 2).await.unwrap();
    assert_eq!(pushed.checked, 3);
    let with_both = shown(&[("emergency-3/y", "y"), ("emergency-2/x", "x"), ("a", "a")]);
    assert_eq!(fixture.names(59).await, with_both);
    // A push replaces the rules below them.
    fixture.edit(&push(&["b"]), 3).await.unwrap();
    assert_eq!(fixture.names(60).await, shown(&[("emergency-3/y", "y"), ("b", "b")]));
    fixture.edit(&RulesEdit::End { revision: 3 }, 70).await.unwrap();
    assert_eq!(fixture.names(70).await, shown(&[("b", "b")]));
    for revision in [2, 3, 4] {
        let error = fixture.edit(&RulesEdit::End { revision }, 71).await.unwrap_err();
        assert!(matches!(error, PushError::NoRevision(_)), "{error}");
    }
    let error = fixture.edit(&emergency(&["z"], 71), 71).await.unwrap_err();
    assert!(error.to_string().contains("expired already"), "{error}");
}

#[tokio::test]
async fn a_named_revision_protects_from_other_operators() {
    let fixture = Fixture::new();
    let expecting = |revision| EditContext { if_revision: Some(revision), ..EditContext::default() };
    fixture.rules.edit(&push(&["a"]), &expecting(0), at(0), check).await.unwrap();
    for stale in [0, 2] {
        let error = fixture.rules.edit(&push(&["b"]), &expecting(stale), at(1), check).await.unwrap_err();
        assert!(matches!(error, PushError::Conflict(1)), "{error}");
    }
    fixture.rules.edit(&push(&["b"]), &expecting(1), at(1), check).await.unwrap();
}

#[tokio::test]
async fn the_history_and_the_bundles_are_bounded() {
    let fixture = Fixture::new();
    fixture.edit(&push(&["first"]), 0).await.unwrap();
    for second in 0..2 * REVISIONS_MAX as u64 {
        fixture.edit(&push(&["a"]), second).await.unwrap();
    }
    assert_eq!(fixture.rules.history().await.unwrap().revisions.len(), REVISIONS_MAX);
    assert_eq!(fixture.keys().await, REVISIONS_MAX);
    // A rollback shares its bundle, which must not be deleted with the older of the two revisions.
    let oldest = fixture.rules.history().await.unwrap().revisions[0].number;
    fixture.edit(&RulesEdit::Rollback { to: Some(oldest) }, 1_000).await.unwrap();
    assert_eq!(fixture.names(1_000).await, shown(&[("a", "a")]));
}

#[tokio::test]
async fn large_files_are_stored_in_parts() {
    let fixture = Fixture::new();
    let mut large = files(&["a"]);
    large[0].text = format!("{}\n# {}", large[0].text, "x".repeat(1 << 20)).into();
    fixture.edit(&RulesEdit::Push(large.clone()), 0).await.unwrap();
    assert!(fixture.keys().await > 5);
    assert_eq!(fixture.active(0).await.files(at(0)), large);
    large[0].text = "x".repeat(17 << 20).into();
    let error = fixture.edit(&RulesEdit::Push(large), 0).await.unwrap_err();
    assert!(error.to_string().contains("can be stored"), "{error}");
}

#[tokio::test]
async fn damaged_and_newer_records_are_errors() {
    let fixture = Fixture::new();
    fixture.edit(&push(&["a"]), 0).await.unwrap();
    let history = fixture.rules.history().await.unwrap();
    let scan = Scan { prefix: "r\u{1f}", after: None, entries_max: 10 };
    let entries = fixture.config.scan(scan).await.unwrap().entries;
    assert_eq!(entries.len(), 2);
    let put = async |key: &str, value: Option<&[u8]>| {
        let write =
            ConfigWrite { key: key.into(), value: value.map(Into::into), condition: WriteCondition::Always };
        fixture.config.write(&[write]).await.unwrap();
    };
    for damage in [None, Some(&b"other"[..]), Some(b"")] {
        put(&entries[0].key, damage).await;
        let error = fixture.rules.layered(&history, at(0)).await.unwrap_err();
        assert!(matches!(error, PushError::Record(_)), "{error}");
    }
    put(&entries[1].key, Some(br#"{"v":2}"#)).await;
    let error = fixture.rules.history().await.unwrap_err();
    assert!(error.to_string().contains("format 2"), "{error}");
}

/// Two operators push at the same time. Each push gets a number, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_pushes_get_different_numbers() {
    const OPERATORS: u64 = 4;
    let fixture = Fixture::new();
    let tasks = (0..OPERATORS).map(|operator| {
        let rules = fixture.rules.clone();
        tokio::spawn(async move {
            let name = format!("rule-{operator}");
            let edited = rules.edit(&push(&[&name]), &EditContext::default(), at(operator), check).await;
            edited.unwrap().history.last_number()
        })
    });
    let mut numbers = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        numbers.push(task.await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(fixture.keys().await, 4);
}
