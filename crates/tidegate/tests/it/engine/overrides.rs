//! Overrides: single keys with limits of their own.

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::{ConfigStore, MemoryConfigStore};
use tidegate::engine::Answer;
use tidegate::overrides::{
    EditError, EditedOverride, OverrideCache, OverrideChange, OverrideEditor, OverridePlace,
};
use tidegate::rules::{Access, AnswerKind, BlockStatus, OverrideValues};
use tidegate::{Clock as _, Nanos, Release, Renewal, Timestamp};

use crate::engine::fixture::{AnswerSummary, EngineFixture, with_request};
use crate::engine::setup::{Setup, over_each_store};
use crate::engine::shared_engine::expect_ready;

const SECOND_NS: u64 = 1_000_000_000;

/// An engine whose keys may have overrides, in a config store in memory.
struct Overridden {
    fixture: EngineFixture,
    cache: Arc<OverrideCache>,
}

impl Overridden {
    fn new(setup: Setup, rules: &str) -> Self {
        let store: Arc<dyn ConfigStore> = Arc::new(MemoryConfigStore::bounded(1 << 20));
        let spawn = Arc::new(|_| panic!("a store in memory answers immediately"));
        let cache = Arc::new(OverrideCache::builder().build(store, spawn));
        let mut fixture = setup.fixture(&format!("{{ domain: api, rules: [ {rules} ] }}"));
        fixture.engine = fixture.engine.with_overrides(Arc::clone(&cache));
        let overridden = Self { fixture, cache };
        overridden.follow();
        overridden
    }

    fn follow(&self) {
        self.cache.tick(self.now());
        while expect_ready(self.cache.follow_changes()).unwrap().has_more {}
    }

    fn now(&self) -> Timestamp {
        self.fixture.clock.now()
    }

    fn set(&self, place: &OverridePlace, change: &OverrideChange) -> EditedOverride {
        self.try_set(place, change, None).unwrap()
    }

    fn try_set(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        if_version: Option<u64>,
    ) -> Result<EditedOverride, EditError> {
        let rules = self.fixture.engine.rules();
        let editor = OverrideEditor::new(&self.cache, &rules);
        let edited = expect_ready(editor.set(place, change, if_version, self.now()));
        self.follow();
        edited
    }

    fn delete(&self, place: &OverridePlace) -> Result<EditedOverride, EditError> {
        let rules = self.fixture.engine.rules();
        let editor = OverrideEditor::new(&self.cache, &rules);
        let edited = expect_ready(editor.delete(place, None, self.now()));
        self.follow();
        edited
    }

    fn refusal(&self, place: &OverridePlace, change: &OverrideChange) -> String {
        match self.try_set(place, change, None) {
            Err(EditError::Refused(reason)) => reason.into(),
            other => panic!("{other:?}"),
        }
    }

    fn passing(&self, attributes: &str, times: usize) -> usize {
        self.fixture.count_passing(attributes, times)
    }

    fn check(&self, attributes: &str) -> AnswerSummary {
        self.fixture.check(attributes)
    }

    fn expires_in(&self, seconds: u64) -> Option<Timestamp> {
        Some(self.now().saturating_add(Nanos::new(u128::from(seconds * SECOND_NS))))
    }
}

/// The key `user` of the rule `a`.
fn user(value: &str) -> OverridePlace {
    OverridePlace {
        domain: "api".into(),
        rule: "a".into(),
        limit_name: None,
        key: vec![("user".into(), value.into())],
    }
}

fn values(limit: u64, per_seconds: Option<u64>) -> OverrideChange {
    let values = OverrideValues {
        limit: Some(limit),
        per_ns: per_seconds.map(|seconds| seconds * SECOND_NS),
        ..OverrideValues::default()
    };
    OverrideChange { values, ..OverrideChange::default() }
}

fn access(access: Access) -> OverrideChange {
    OverrideChange { access, ..OverrideChange::default() }
}

const BLOCKED: Access = Access::Blocked(BlockStatus::TooManyRequests);
const FIVE: &str = "{ name: a, key: [user], limit: { limit: 5 per minute, algorithm: fixed_window } }";

fn a_raised_and_a_lowered_limit_keep_what_is_used(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    assert_eq!(it.passing("user=1", 3), 3);
    it.set(&user("1"), &values(10, None));
    assert_eq!(it.passing("user=1", 20), 7);
    it.set(&user("1"), &values(2, None));
    assert_eq!(it.passing("user=1", 3), 0);
    // Other keys have the limit of the rule.
    assert_eq!(it.passing("user=2", 20), 5);
    it.fixture.advance(60);
    assert_eq!(it.passing("user=1", 20), 2);
    it.delete(&user("1")).unwrap();
    assert_eq!(it.passing("user=1", 20), 3);
    assert_eq!(it.delete(&user("1")), Err(EditError::NotFound));
}

fn headers_show_the_limit_of_the_key(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("1"), &values(10, Some(120)));
    let policy = |attributes: &str| {
        with_request(attributes, 1, |request| {
            let policy = |answer: &Answer| {
                let limit = answer.limit(0).unwrap();
                limit.header_texts().map(|texts| texts.policy.to_string())
            };
            it.fixture.setup.check(&it.fixture.engine, request, policy).unwrap()
        })
    };
    assert_eq!(policy("user=1").unwrap(), "\"a/1\";q=10;w=120");
    assert_eq!(policy("user=2").unwrap(), "\"a/1\";q=5;w=60");
}

fn a_changed_window_hands_out_no_fresh_window(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    assert_eq!(it.passing("user=1", 5), 5);
    // One per second, beside five per minute, which are used up, for a second.
    it.set(&user("1"), &values(1, Some(1)));
    assert_eq!(it.passing("user=1", 3), 0);
    it.fixture.advance(1);
    assert_eq!(it.passing("user=1", 3), 1);
    // Back to the rule: its window is the old one, and the second is still enforced for a second.
    it.delete(&user("1")).unwrap();
    assert_eq!(it.passing("user=1", 3), 0);
    it.fixture.advance(1);
    // The units that were used under the override were not counted in the minute. Those before it were.
    assert_eq!(it.passing("user=1", 3), 0);
    it.fixture.advance(60);
    assert_eq!(it.passing("user=1", 9), 5);
}

/// A rule gets another window while a key has an override.
fn a_changed_rule_charges_each_counter_of_an_override_once(setup: Setup) {
    let rules = |limit: &str| {
        format!("{{ name: a, key: [user], limit: {{ limit: {limit}, algorithm: fixed_window }} }}")
    };
    let reload = |it: &Overridden, limit: &str| {
        it.fixture.reload(&format!("{{ domain: api, rules: [ {} ] }}", rules(limit)));
    };
    // The window of the override is the one that the rule had.
    let it = Overridden::new(setup, &rules("5 per minute"));
    it.set(&user("1"), &values(8, Some(60)));
    reload(&it, "100 per hour");
    assert_eq!(it.passing("user=1", 20), 8);
    // An override of the limit alone applies to the window that the rule had, too.
    let it = Overridden::new(setup, &rules("5 per minute"));
    it.set(&user("1"), &values(8, None));
    assert_eq!(it.passing("user=1", 2), 2);
    reload(&it, "100 per hour");
    assert_eq!(it.passing("user=1", 20), 6);
    // For other keys, the old window of the rule counts.
    assert_eq!(it.passing("user=2", 20), 5);
}

fn a_window_that_returns_is_charged_once(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    for (limit, minutes) in [(100, 60), (50, 10), (70, 60)] {
        it.set(&user("1"), &values(limit, Some(minutes * 60)));
        it.fixture.advance(60);
    }
    it.set(&user("1"), &values(40, Some(600)));
    // Not 35, as if each request was counted twice in the hour.
    assert_eq!(it.passing("user=1", 60), 40);
}

fn wildcards_hand_out_no_fresh_window(setup: Setup) {
    let hourly = "{ name: a, key: [user], limit: { limit: 5 per hour, algorithm: fixed_window } }";
    let it = Overridden::new(setup, hourly);
    assert_eq!(it.passing("user=ann", 9), 5);
    it.set(&user("a*"), &values(3, Some(60)));
    assert_eq!(it.passing("user=ann", 9), 0, "the hour of the rule is used up, for a minute");
    it.fixture.advance(60);
    assert_eq!(it.passing("user=ann", 9), 3);
    // From the wildcard to an override of the key, and back.
    it.set(&user("ann"), &values(100, Some(30)));
    assert_eq!(it.passing("user=ann", 9), 0, "the minute of the wildcard is used up, for half a minute");
    it.fixture.advance(30);
    assert_eq!(it.passing("user=ann", 200), 100);
    it.delete(&user("ann")).unwrap();
    assert_eq!(it.passing("user=ann", 200), 0, "the half minute of the override is used up");
    it.fixture.advance(30);
    assert_eq!(it.passing("user=ann", 9), 3);
    // Back to the rule.
    it.delete(&user("a*")).unwrap();
    assert_eq!(it.passing("user=ann", 9), 0);
    // A key with an override of its own has nothing to do with the wildcard.
    it.set(&user("abe"), &values(50, Some(30)));
    it.fixture.advance(7_200);
    it.set(&user("a*"), &values(1, Some(60)));
    it.set(&user("a*"), &values(1, Some(600)));
    assert_eq!(it.passing("user=abe", 60), 50);
}

fn a_wildcard_that_expires_leaves_its_window_behind(setup: Setup) {
    let it = Overridden::new(
        setup,
        "{ name: a, key: [user], limit: { limit: 5 per second, algorithm: fixed_window } }",
    );
    it.set(&user("a*"), &OverrideChange { expires_at: it.expires_in(10), ..values(2, Some(60)) });
    it.fixture.advance(9);
    assert_eq!(it.passing("user=ann", 5), 2);
    it.fixture.advance(1);
    assert_eq!(it.passing("user=ann", 5), 0);
    it.fixture.advance(1);
    assert_eq!(it.passing("user=ann", 9), 5);
}

fn another_tier_hands_out_no_fresh_window(setup: Setup) {
    let rules = "{ name: a, key: [user], tiers: { by: plan, default: free, plans: {
        free: { limit: 2 per minute, algorithm: fixed_window },
        pro: { limit: 8 per hour, algorithm: fixed_window },
        big: { limit: 100 per day, algorithm: fixed_window } } } }";
    let it = Overridden::new(setup, rules);
    let tier = |name: &str| OverrideChange { tier: Some(name.into()), ..OverrideChange::default() };
    assert_eq!(it.passing("user=1 plan=free", 9), 2);
    it.set(&user("1"), &tier("pro"));
    assert_eq!(it.passing("user=1 plan=free", 9), 0, "the minute of the plan `free` is used up");
    it.fixture.advance(60);
    assert_eq!(it.passing("user=1 plan=free", 9), 8);
    it.set(&user("1"), &tier("big"));
    assert_eq!(it.passing("user=1 plan=free", 9), 0, "the hour of the plan `pro` is used up");
    it.delete(&user("1")).unwrap();
    it.fixture.advance(60);
    // The windows of both plans stay enforced for a minute, which is the window of `free`.
    assert_eq!(it.passing("user=1 plan=free", 9), 2);
}

fn an_override_without_a_name_means_one_limit(setup: Setup) {
    let it = Overridden::new(setup, "{ name: a, key: [user], limits: [ 5 per minute ] }");
    it.set(&user("1"), &values(50, Some(1)));
    it.set(&user("2"), &access(BLOCKED));
    it.fixture.advance(1);
    assert_eq!(it.passing("user=1", 60), 50);
    it.fixture
        .reload("{ domain: api, rules: [ { name: a, key: [user], limits: [ 5 per minute, 9 per day ] } ] }");
    it.fixture.advance(60);
    // It is not known which limit is meant, so both are those of the rule.
    assert_eq!(it.passing("user=1", 60), 5);
    assert!(!it.fixture.explain("user=1").contains("override"), "{}", it.fixture.explain("user=1"));
    assert_eq!(it.check("user=2").kind, AnswerKind::Denied);
}

/// A block is beside the other override of a key.
fn a_block_stays_when_another_override_changes(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("1"), &values(7, None));
    let ban = OverrideChange { expires_at: it.expires_in(900), ..access(BLOCKED) };
    assert_eq!(it.set(&user("1"), &ban).before, None);
    let edited = it.set(&user("1"), &values(9, None));
    assert_eq!(edited.before.map(|before| before.values.limit), Some(Some(7)));
    assert_eq!(it.check("user=1").kind, AnswerKind::Denied);
    let batch = [(user("1"), values(8, None))];
    {
        let rules = it.fixture.engine.rules();
        let editor = OverrideEditor::new(&it.cache, &rules);
        let results = expect_ready(editor.set_all(&batch, it.now()));
        assert_eq!(results[0].as_ref().unwrap().before.as_ref().unwrap().values.limit, Some(9));
    }
    assert_eq!(it.check("user=1").kind, AnswerKind::Denied, "an import lifts no ban");
    it.delete(&user("1")).unwrap();
    assert_eq!(it.check("user=1").kind, AnswerKind::Denied);
    // The second one removes the block.
    let before = it.delete(&user("1")).unwrap().before;
    assert_eq!(before.map(|before| before.access), Some(BLOCKED));
    assert_eq!(it.passing("user=1", 9), 5);
    assert_eq!(it.delete(&user("1")), Err(EditError::NotFound));
}

fn a_long_value_does_not_evade_a_wildcard(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("*@evil.com"), &access(BLOCKED));
    it.set(&user("bot-*"), &access(BLOCKED));
    let long = "x".repeat(2_000);
    assert_eq!(it.check(&format!("user={long}@evil.com")).kind, AnswerKind::Denied);
    assert_eq!(it.check(&format!("user=bot-{long}")).kind, AnswerKind::Denied);
    assert_eq!(it.check(&format!("user={long}")).kind, AnswerKind::Allowed);
}

fn an_unlimited_key_is_not_exempt_from_a_block(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("ann@acme.com"), &access(Access::Unlimited));
    it.set(&user("*@acme.com"), &access(BLOCKED));
    assert_eq!(it.check("user=ann@acme.com").kind, AnswerKind::Denied);
    it.delete(&user("*@acme.com")).unwrap();
    assert_eq!(it.passing("user=ann@acme.com", 9), 9);
}

fn a_reset_empties_the_window_of_an_override(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("1"), &values(3, Some(600)));
    it.fixture.advance(60);
    assert_eq!(it.passing("user=1", 9), 3);
    let engine = &it.fixture.engine;
    with_request("user=1", 1, |request| {
        let rules = engine.rules();
        let matched = rules.matched_limits(request);
        expect_ready(engine.reset_limits(rules, matched)).unwrap();
    });
    assert_eq!(it.passing("user=1", 9), 3);
}

/// A lease is renewed and released whatever has been overridden since.
fn leases_outlive_blocks_and_exemptions(setup: Setup) {
    let rules = "{ name: a, key: [user], limit: { limit: 1, algorithm: concurrency, ttl: 60s } }";
    for access in [BLOCKED, Access::Unlimited] {
        let it = Overridden::new(setup, rules);
        let change = OverrideChange { access, ..OverrideChange::default() };
        let engine = &it.fixture.engine;
        with_request("user=1", 1, |request| {
            let (_, lease) = setup.acquire(engine, request, None, |_| ());
            let token = lease.unwrap().token;
            it.set(&user("1"), &change);
            let renewed = setup.renew(engine, request, &token);
            let Renewal::Renewed(lease) = renewed else { panic!("{access:?}: {renewed:?}") };
            assert_eq!(setup.release(engine, request, &lease.token), Release::Released, "{access:?}");
            it.delete(&user("1")).unwrap();
            assert!(
                setup.acquire(engine, request, None, |_| ()).1.is_some(),
                "{access:?}: the unit is free again"
            );
        });
    }
}

fn an_expired_window_stays_enforced_for_a_while(setup: Setup) {
    let it = Overridden::new(
        setup,
        "{ name: a, key: [user], limit: { limit: 5 per second, algorithm: fixed_window } }",
    );
    let change = OverrideChange { expires_at: it.expires_in(10), ..values(2, Some(60)) };
    it.set(&user("1"), &change);
    it.fixture.advance(9);
    assert_eq!(it.passing("user=1", 5), 2);
    it.fixture.advance(1);
    // It has expired, and its window is enforced for the shorter of both windows: a second.
    assert_eq!(it.passing("user=1", 5), 0);
    it.fixture.advance(1);
    assert_eq!(it.passing("user=1", 9), 5);
}

fn blocks_deny_until_they_end(setup: Setup) {
    let it = Overridden::new(setup, &format!("{FIVE}, {{ name: b, key: [ip], limit: 100 per minute }}"));
    it.set(&user("1"), &OverrideChange { expires_at: it.expires_in(900), ..access(BLOCKED) });
    let denied = it.check("user=1 ip=192.0.2.1");
    assert_eq!((denied.kind, denied.rule.as_deref()), (AnswerKind::Denied, Some("a")));
    assert_eq!(denied.retry_after_ms, Some(900_000));
    // A denied request charges nothing.
    assert_eq!(it.check("user=2 ip=192.0.2.1").limits[1].2, 99);
    it.fixture.advance(899);
    assert_eq!(it.check("user=1 ip=192.0.2.1").kind, AnswerKind::Denied);
    it.fixture.advance(1);
    assert_eq!(it.check("user=1 ip=192.0.2.1").kind, AnswerKind::Allowed);
    // Without an end, waiting does not help.
    it.set(&user("1"), &access(BLOCKED));
    assert_eq!(it.check("user=1").retry_after_ms, None);
    assert!(it.fixture.explain("user=1").contains("the key is blocked"), "{}", it.fixture.explain("user=1"));
}

fn a_block_denies_also_where_the_rule_does_not(setup: Setup) {
    for action in ["shadow", "shadow_ban", "{ soft: { margin: 20% } }", "{ delay: { max_wait: 5s } }"] {
        let rules = format!("{{ name: a, key: [user], limit: 5 per minute, action: {action} }}");
        let it = Overridden::new(setup, &rules);
        it.set(&user("1"), &access(BLOCKED));
        assert_eq!(it.check("user=1").kind, AnswerKind::Denied, "{action}");
        assert_eq!(it.check("user=2").kind, AnswerKind::Allowed, "{action}");
    }
}

fn an_unlimited_key_passes_and_charges_nothing(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("1"), &access(Access::Unlimited));
    assert_eq!(it.passing("user=1", 20), 20);
    assert!(it.check("user=1").limits.is_empty());
    it.delete(&user("1")).unwrap();
    assert_eq!(it.passing("user=1", 20), 5);
}

fn precedence_is_exact_then_longest_wildcard_then_rule(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("*@acme.com"), &values(7, None));
    it.set(&user("ann@*"), &values(8, None));
    it.set(&user("bob@acme.com"), &values(2, None));
    assert_eq!(it.passing("user=eve@acme.com", 20), 7);
    // `*@acme.com` has more literal characters than `ann@*`.
    assert_eq!(it.passing("user=ann@acme.com", 20), 7);
    assert_eq!(it.passing("user=ann@example.org", 20), 8);
    assert_eq!(it.passing("user=bob@acme.com", 20), 2);
    assert_eq!(it.passing("user=bob@example.org", 20), 5);
    // Each key that a wildcard matches has its own counter.
    assert_eq!(it.passing("user=joe@acme.com", 20), 7);
    it.delete(&user("*@acme.com")).unwrap();
    it.fixture.advance(60);
    assert_eq!(it.passing("user=ann@acme.com", 20), 8);
    assert_eq!(it.passing("user=eve@acme.com", 20), 5);
}

fn a_block_at_any_level_wins_unless_the_key_is_allowed(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("*@acme.com"), &access(BLOCKED));
    it.set(&user("ann*"), &values(8, None));
    it.set(&user("bob@acme.com"), &values(9, None));
    assert_eq!(it.passing("user=ann@acme.com", 3), 0);
    assert_eq!(it.passing("user=bob@acme.com", 3), 0);
    it.set(&user("bob@acme.com"), &OverrideChange { access: Access::Allowed, ..values(9, None) });
    assert_eq!(it.passing("user=bob@acme.com", 20), 9);
    it.set(&user("joe@acme.com"), &access(Access::Allowed));
    assert_eq!(it.passing("user=joe@acme.com", 20), 5);
}

const TIERS: &str = "{ name: a, key: [user], tiers: { by: plan, plans: { pro: { limit: 8 per minute, algorithm: fixed_window }, free: { limit: 2 per minute, algorithm: fixed_window } }, default: free } }";

fn a_tier_replaces_the_limits_of_the_plan(setup: Setup) {
    let it = Overridden::new(setup, TIERS);
    assert_eq!(it.passing("user=1 plan=free", 9), 2);
    it.set(&user("1"), &OverrideChange { tier: Some("pro".into()), ..OverrideChange::default() });
    // The two units stay used.
    assert_eq!(it.passing("user=1 plan=free", 9), 6);
    assert_eq!(it.passing("user=2 plan=free", 9), 2);
    let refusal =
        it.refusal(&user("1"), &OverrideChange { tier: Some("prp".into()), ..OverrideChange::default() });
    assert!(refusal.contains("did you mean `pro`"), "{refusal}");
}

fn named_limits_are_overridden_one_by_one(setup: Setup) {
    let rules = "{ name: a, key: [user], limits: [ { name: burst, limit: 5 per second }, { name: daily, limit: 20 per day } ] }";
    let it = Overridden::new(setup, rules);
    let refusal = it.refusal(&user("1"), &values(9, None));
    assert!(refusal.contains("several limits") && refusal.contains("burst, daily"), "{refusal}");
    let daily = OverridePlace { limit_name: Some("daily".into()), ..user("1") };
    it.set(&daily, &values(3, None));
    assert_eq!(it.passing("user=1", 9), 3);
    let burst = OverridePlace { limit_name: Some("burst".into()), ..user("2") };
    it.set(&burst, &values(2, None));
    assert_eq!(it.passing("user=2", 9), 2);
    // A block needs no name, and goes before what a name says.
    it.set(&user("1"), &access(BLOCKED));
    assert_eq!(it.check("user=1").kind, AnswerKind::Denied);
    let refusal =
        it.refusal(&OverridePlace { limit_name: Some("dayly".into()), ..user("1") }, &values(3, None));
    assert!(refusal.contains("did you mean `daily`"), "{refusal}");
}

fn values_are_normalised_as_rules_do(setup: Setup) {
    let rules =
        "{ name: a, key: [ip], limit: 5 per minute }, { name: m, key: [method], limit: 5 per minute }";
    let it = Overridden::new(setup, rules);
    let ip = |value: &str| OverridePlace { key: vec![("ip".into(), value.into())], ..user("") };
    it.set(&ip("2001:db8::1"), &access(BLOCKED));
    assert_eq!(it.check("ip=2001:db8::ffff:2").kind, AnswerKind::Denied);
    assert_eq!(it.check("ip=2001:db9::1").kind, AnswerKind::Allowed);
    it.set(&ip("::ffff:192.0.2.7"), &access(BLOCKED));
    assert_eq!(it.check("ip=192.0.2.7").kind, AnswerKind::Denied);
    let method = OverridePlace {
        rule: "m".into(),
        key: vec![("method".into(), "DELETE".into())],
        ..OverridePlace { domain: "api".into(), ..user("") }
    };
    it.set(&method, &access(BLOCKED));
    assert_eq!(it.check("method=delete").kind, AnswerKind::Denied);
    let rules = "{ name: a, key: [path], limit: 5 per minute }";
    let by_path = Overridden::new(setup, rules);
    let path = |value: &str| OverridePlace { key: vec![("path".into(), value.into())], ..user("") };
    by_path.set(&path("/a?x=1"), &access(BLOCKED));
    assert_eq!(by_path.check("path=/a").kind, AnswerKind::Denied);
    assert_eq!(by_path.check("path=/a?y").kind, AnswerKind::Denied);
    let refusal = by_path.refusal(&path("*?x=1"), &access(BLOCKED));
    assert!(refusal.contains("without its query"), "{refusal}");
    for (value, part) in [("192.0.2.*", "takes no `*`"), ("localhost", "is not an IP address")] {
        let refusal = it.refusal(&ip(value), &access(BLOCKED));
        assert!(refusal.contains(part), "{refusal}");
    }
}

fn what_cannot_work_is_refused(setup: Setup) {
    let it = Overridden::new(
        setup,
        &format!("{FIVE}, {{ name: closed, key: [user], limit: 1 per day, overrides: false }}"),
    );
    let place = |rule: &str| OverridePlace { rule: rule.into(), ..user("1") };
    let key = |names: &[&str]| OverridePlace {
        key: names.iter().map(|name| ((*name).into(), "1".into())).collect(),
        ..user("1")
    };
    let burst = OverrideChange {
        values: OverrideValues { burst: Some(3), ..OverrideValues::default() },
        ..OverrideChange::default()
    };
    let both = OverrideChange { access: BLOCKED, ..values(3, None) };
    let past = OverrideChange { expires_at: Some(Timestamp::from_nanos(0)), ..values(3, None) };
    it.fixture.advance(1);
    let cases = [
        (OverridePlace { domain: "apo".into(), ..user("1") }, values(3, None), "did you mean `api`"),
        (place("b"), values(3, None), "no rule is named `b`"),
        (place("closed"), values(3, None), "`overrides: false`"),
        (key(&["ip"]), values(3, None), "its keys are [user]"),
        (key(&["user", "ip"]), values(3, None), "its keys are [user]"),
        (user("1"), OverrideChange::default(), "sets nothing"),
        (user("1"), burst, "`burst` does not go with algorithm fixed_window"),
        (user("1"), both, "has no limit or tier"),
        (user("1"), past, "has expired already"),
        (user("*"), values(3, None), "would match every key"),
        (user("*a*"), values(3, None), "only one `*`"),
        (user("a*b*"), values(3, None), "only one `*`"),
        (user("**a"), values(3, None), "only one `*`"),
        (user(&"x".repeat(2_000)), values(3, None), "more than 1024 bytes"),
        (user("1"), values(u64::MAX, None), "limit"),
    ];
    for (place, change, part) in cases {
        let refusal = it.refusal(&place, &change);
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    assert_eq!(it.passing("user=1", 9), 1);
}

fn versions_keep_operators_from_overwriting_each_other(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    let first = it.try_set(&user("1"), &values(6, None), Some(0)).unwrap();
    assert_eq!(
        it.try_set(&user("1"), &values(7, None), Some(0)),
        Err(EditError::Conflict(Some(first.version)))
    );
    let second = it.try_set(&user("1"), &values(8, None), Some(first.version)).unwrap();
    assert!(second.version > first.version);
    assert_eq!(second.before.map(|before| before.values.limit), Some(Some(6)));
    assert_eq!(it.passing("user=1", 20), 8);
}

fn the_explanation_names_the_override(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    let change =
        OverrideChange { author: Some("ann".into()), note: Some("ticket 7".into()), ..values(9, None) };
    let version = it.set(&user("1"), &change).version;
    let text = it.fixture.explain("user=1");
    assert!(
        text.contains(&format!("override api/a/user=1, version {version}, by ann, note \"ticket 7\"")),
        "{text}"
    );
    assert!(!it.fixture.explain("user=2").contains("override"));
}

fn a_renamed_rule_keeps_its_overrides(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.set(&user("1"), &values(2, None));
    it.fixture.reload(
        "{ domain: api, rules: [ { name: b, was: a, key: [user], limit: { limit: 5 per minute, algorithm: fixed_window } } ] }",
    );
    assert_eq!(it.passing("user=1", 9), 2);
    it.set(&OverridePlace { rule: "b".into(), ..user("1") }, &values(3, None));
    assert_eq!(it.passing("user=1", 9), 1);
}

fn soft_limits_keep_their_margin(setup: Setup) {
    let it = Overridden::new(
        setup,
        "{ name: a, key: [user], limit: { limit: 10 per minute, algorithm: fixed_window }, action: { soft: { margin: 50% } } }",
    );
    it.set(&user("1"), &values(4, None));
    let kinds = it.fixture.kinds("user=1", 7);
    assert_eq!(kinds[..4], [AnswerKind::Allowed; 4]);
    assert_eq!(kinds[4..], [AnswerKind::Soft, AnswerKind::Soft, AnswerKind::Denied]);
}

fn an_override_ends_at_its_expiry(setup: Setup) {
    let it = Overridden::new(setup, FIVE);
    it.fixture.clock.advance(Duration::from_secs(100));
    it.set(&user("1"), &OverrideChange { expires_at: it.expires_in(10), ..values(50, None) });
    it.fixture.advance(10);
    assert_eq!(it.passing("user=1", 20), 5);
}

/// Keys with equal overrides share them in memory, also keys of different rules, and over a reload of the rules.
fn equal_overrides_apply_to_the_limits_of_each_rule(setup: Setup) {
    const A: &str = "{ name: a, match: { kind: a }, key: [user], limit: { limit: 5 per minute, algorithm: fixed_window } }";
    const B: &str =
        "{ name: b, match: { kind: b }, key: [user], limit: { limit: 5 per hour, algorithm: fixed_window } }";
    const USERS: usize = 100;
    let it = Overridden::new(setup, &format!("{A}, {B}"));
    for number in 0..USERS {
        let a = user(&number.to_string());
        it.set(&OverridePlace { rule: "b".into(), ..a.clone() }, &values(2, None));
        it.set(&a, &values(2, None));
    }
    let passing = |kind: &str| -> usize {
        (0..USERS).map(|number| it.passing(&format!("kind={kind} user={number}"), 4)).sum()
    };
    assert_eq!((passing("a"), passing("b")), (2 * USERS, 2 * USERS));
    it.fixture.reload(&format!("{{ domain: api, rules: [ {B}, {A} ] }}"));
    assert_eq!((passing("a"), passing("b")), (0, 0));
    it.fixture.advance(60);
    assert_eq!((passing("a"), passing("b")), (2 * USERS, 0));
    assert!(it.fixture.explain("kind=a user=7").contains("override api/a/user=7, version"));
    assert!(it.fixture.explain("kind=b user=7").contains("override api/b/user=7, version"));
}

over_each_store!(
    leases_outlive_blocks_and_exemptions,
    a_changed_rule_charges_each_counter_of_an_override_once,
    a_window_that_returns_is_charged_once,
    wildcards_hand_out_no_fresh_window,
    a_wildcard_that_expires_leaves_its_window_behind,
    another_tier_hands_out_no_fresh_window,
    an_override_without_a_name_means_one_limit,
    a_block_stays_when_another_override_changes,
    a_long_value_does_not_evade_a_wildcard,
    an_unlimited_key_is_not_exempt_from_a_block,
    a_reset_empties_the_window_of_an_override,
    equal_overrides_apply_to_the_limits_of_each_rule,
    a_raised_and_a_lowered_limit_keep_what_is_used,
    headers_show_the_limit_of_the_key,
    a_changed_window_hands_out_no_fresh_window,
    an_expired_window_stays_enforced_for_a_while,
    blocks_deny_until_they_end,
    a_block_denies_also_where_the_rule_does_not,
    an_unlimited_key_passes_and_charges_nothing,
    precedence_is_exact_then_longest_wildcard_then_rule,
    a_block_at_any_level_wins_unless_the_key_is_allowed,
    a_tier_replaces_the_limits_of_the_plan,
    named_limits_are_overridden_one_by_one,
    values_are_normalised_as_rules_do,
    what_cannot_work_is_refused,
    versions_keep_operators_from_overwriting_each_other,
    the_explanation_names_the_override,
    a_renamed_rule_keeps_its_overrides,
    soft_limits_keep_their_margin,
    an_override_ends_at_its_expiry,
);
