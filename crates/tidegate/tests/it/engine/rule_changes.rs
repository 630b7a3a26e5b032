//! Rules that change under traffic: no counter is reset.

use crate::engine::fixture::domains;
use crate::engine::setup::{Setup, over_each_store};

fn rules(rule: &str) -> String {
    format!("{{ domain: api, rules: [ {{ key: [user], {rule} }} ] }}")
}

const FIVE_PER_MINUTE: &str = "name: a, limit: { limit: 5 per minute, algorithm: fixed_window }";

/// How many requests pass after an edit, when two were used before it.
fn remaining_after(setup: Setup, edit: &str) -> usize {
    let fixture = setup.fixture(&rules(FIVE_PER_MINUTE));
    assert_eq!(fixture.count_passing("user=1", 2), 2);
    fixture.reload(&rules(edit));
    fixture.count_passing("user=1", 9)
}

fn same_rules(setup: Setup) {
    assert_eq!(remaining_after(setup, FIVE_PER_MINUTE), 3);
}

fn changed_limit(setup: Setup) {
    assert_eq!(remaining_after(setup, "name: a, limit: { limit: 7 per minute, algorithm: fixed_window }"), 5);
    assert_eq!(remaining_after(setup, "name: a, limit: { limit: 1 per minute, algorithm: fixed_window }"), 0);
}

fn changed_match_action_and_key_order(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    assert_eq!(
        remaining_after(setup, &format!("name: a, match: {{ user: {{ exists: true }} }}, {limit}")),
        3
    );
    assert_eq!(
        remaining_after(setup, &format!("name: a, action: {{ soft: {{ margin: 20% }} }}, {limit}")),
        4
    );
}

fn a_new_name_resets_unless_it_names_the_old_one(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    assert_eq!(remaining_after(setup, &format!("name: b, {limit}")), 5);
    assert_eq!(remaining_after(setup, &format!("name: b, was: a, {limit}")), 3);
    assert_eq!(remaining_after(setup, &format!("name: c, was: [b, a], {limit}")), 3);
}

fn rules_can_be_renamed_repeatedly(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    let fixture = setup.fixture(&rules(FIVE_PER_MINUTE));
    fixture.check("user=1");
    for (edit, left) in [("name: b, was: a", 3), ("name: c, was: b", 2), ("name: c", 1)] {
        fixture.reload(&rules(&format!("{edit}, {limit}")));
        assert_eq!(fixture.check("user=1").remaining, left);
    }
    // A new rule that takes the old name has its own counters, and takes none away.
    fixture.reload(&format!(
        "{{ domain: api, rules: [ {{ name: a, key: [user], {limit} }}, {{ name: c, key: [user], {limit} }} ] }}"
    ));
    let answer = fixture.check("user=1");
    assert_eq!((answer.limits[0].2, answer.limits[1].2), (4, 0));
}

fn limits_can_be_renamed_repeatedly(setup: Setup) {
    let rule = |name: &str| {
        rules(&format!("name: a, limits: [ {{ limit: 5 per minute, algorithm: fixed_window, {name} }} ]"))
    };
    let fixture = setup.fixture(&rule("name: a"));
    fixture.check("user=1");
    for (name, left) in [("name: b, was: a", 3), ("name: c, was: b", 2), ("name: c", 1)] {
        fixture.reload(&rule(name));
        assert_eq!(fixture.check("user=1").remaining, left, "{name}");
    }
}

fn many_changes_do_not_block_decisions(setup: Setup) {
    let file = |hours: usize| {
        let rule = |number: usize| {
            format!(
                "  - {{ name: r{number}, limit: {{ limit: 9 per {hours}h, algorithm: fixed_window }} }}\n"
            )
        };
        format!("domain: api\nrules:\n{}", (0..8).map(rule).collect::<String>())
    };
    let fixture = setup.fixture(&file(24));
    for hours in 25..60 {
        fixture.reload(&file(hours));
    }
    assert_eq!(fixture.count_passing("user=1", 20), 9);
}

fn a_pool_with_a_new_window_starts_empty_beside_the_old_one(setup: Setup) {
    let file = |pool: &str| {
        format!(
            "
domain: api
pools: {{ spare: {{ limit: {pool}, algorithm: fixed_window }} }}
rules:
  - name: a
    limit: {{ limit: 1 per minute, algorithm: fixed_window }}
    action: {{ elastic: {{ max: 50, pool: spare }} }}
"
        )
    };
    let fixture = setup.fixture(&file("2 per minute"));
    assert_eq!(fixture.count_passing("user=1", 9), 3);
    fixture.reload(&file("100 per hour"));
    assert_eq!(fixture.count_passing("user=1", 9), 0);
    fixture.advance(60);
    assert_eq!(fixture.count_passing("user=1", 90), 50);
}

fn a_superseded_window_ignores_the_signal(setup: Setup) {
    let file = |limit: &str, max: u64| {
        rules(&format!(
            "name: a, limit: {{ limit: {limit}, algorithm: fixed_window }}, \
             action: {{ elastic: {{ max: {max}, signal: capacity }} }}"
        ))
    };
    let fixture = setup.fixture(&file("6000 per hour", 9000));
    assert_eq!(fixture.count_passing("user=1", 200), 200);
    fixture.reload(&file("100 per minute", 150));
    fixture.engine.push_signal("capacity", "0".parse().unwrap()).unwrap();
    assert_eq!(fixture.count_passing("user=1", 200), 100);
}

fn unnamed_limits_can_be_reordered(setup: Setup) {
    let file = |limits: &str| rules(&format!("name: a, limits: [ {limits} ]"));
    let minute = "limit: 5 per minute, algorithm: fixed_window";
    let hour = "limit: 50 per minute, algorithm: fixed_window";
    let fixture = setup.fixture(&file(&format!("{{ {minute} }}, {{ {hour}, cost: 2 }}")));
    fixture.check("user=1");
    fixture.reload(&file(&format!("{{ {hour}, cost: 2, was: 2 }}, {{ {minute}, was: 1 }}")));
    let answer = fixture.check("user=1");
    assert_eq!((answer.limits[0].2, answer.limits[1].2), (46, 3));
}

fn soft_and_elastic_do_not_inherit_a_neighbours_counter(setup: Setup) {
    let file = |action: &str| {
        format!(
            "{{ domain: api, pools: {{ spare: 100 per minute }}, rules: [ {{ name: a, \
             limit: {{ limit: 2 per minute, algorithm: fixed_window }}, action: {action} }} ] }}"
        )
    };
    let fixture = setup.fixture(&file("{ soft: { margin: 400% } }"));
    assert_eq!(fixture.count_passing("user=1", 3), 3);
    fixture.reload(&file("{ elastic: { max: 10, pool: spare } }"));
    assert_eq!(fixture.check("user=1").kind, tidegate::rules::AnswerKind::Allowed);
}

fn limits_can_be_renamed_and_moved(setup: Setup) {
    let limit = |name: &str| {
        format!(
            "name: a, limits: [ {{ limit: 100 per hour, name: other }}, \
             {{ limit: 5 per minute, algorithm: fixed_window, {name} }} ]"
        )
    };
    let fixture = setup.fixture(&rules(
        "name: a, limits: [ { limit: 5 per minute, algorithm: fixed_window, name: x }, { limit: 100 per hour, name: other } ]",
    ));
    fixture.check("user=1");
    fixture.reload(&rules(&limit("name: x")));
    assert_eq!(fixture.check("user=1").remaining, 3);
    fixture.reload(&rules(&limit("name: y, was: x")));
    assert_eq!(fixture.check("user=1").remaining, 2);
}

fn a_new_window_starts_empty_beside_the_old_one(setup: Setup) {
    let fixture = setup.fixture(&rules(FIVE_PER_MINUTE));
    assert_eq!(fixture.count_passing("user=1", 5), 5);
    fixture.advance(20);
    fixture.reload(&rules("name: a, limit: { limit: 100 per hour, algorithm: fixed_window }"));
    let denied = fixture.check("user=1");
    assert_eq!((denied.kind.passes(), denied.retry_after_ms), (false, Some(40_000)));
    // The old limit begins a new window, and is still enforced until a minute after the change.
    fixture.advance(40);
    assert_eq!(fixture.count_passing("user=1", 9), 5);
    let denied = fixture.check("user=1");
    assert_eq!(denied.retry_after_ms, Some(20_000));
    fixture.advance(20);
    assert_eq!(fixture.count_passing("user=1", 200), 95);
}

fn rules_are_swapped_under_traffic(setup: Setup) {
    let file = |other: &str| {
        format!(
            "{{ domain: api, rules: [ {{ name: {other}, match: {{ user: nobody }}, limit: 5 per minute }}, \
             {{ name: a, key: [user], limit: {{ limit: 1000 per hour, algorithm: fixed_window }} }} ] }}"
        )
    };
    let (one, other) = (domains(&file("one")), domains(&file("other")));
    let fixture = setup.fixture(&file("one"));
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| fixture.count_passing("user=1", 1000))).collect();
        for round in 0..200 {
            let domains = if round % 2 == 0 { &other } else { &one };
            fixture.engine.replace(domains.clone()).unwrap();
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1000);
}

fn conflicting_rules_change_nothing(setup: Setup) {
    let fixture = setup.fixture(&rules(FIVE_PER_MINUTE));
    let mut twice = domains(&rules("name: b, limit: 1 per minute"));
    twice.extend(domains(&rules("name: c, limit: 1 per minute")));
    let error = fixture.engine.replace(twice).unwrap_err();
    assert_eq!(error.to_string(), "there are two domains `api` (hint: merge them)");
    assert_eq!(fixture.check("user=1").rule.as_deref(), Some("a"));
}

fn signals_keep_their_level(setup: Setup) {
    let elastic = "name: a, limit: { limit: 2 per minute, algorithm: fixed_window }, \
                   action: { elastic: { min: 1, max: 5, signal: capacity } }";
    let fixture = setup.fixture(&rules(elastic));
    fixture.engine.push_signal("capacity", "1".parse().unwrap()).unwrap();
    fixture.reload(&rules(elastic));
    assert_eq!(fixture.count_passing("user=1", 9), 5);
}

fn a_restored_domain_finds_its_counters(setup: Setup) {
    let fixture = setup.fixture(&rules(FIVE_PER_MINUTE));
    fixture.check("user=1");
    fixture.engine.replace(Vec::new()).unwrap();
    assert_eq!(fixture.check("user=1").rule, None);
    fixture.reload(&rules(FIVE_PER_MINUTE));
    assert_eq!(fixture.check("user=1").remaining, 3);
}

over_each_store!(
    same_rules,
    changed_limit,
    changed_match_action_and_key_order,
    a_new_name_resets_unless_it_names_the_old_one,
    rules_can_be_renamed_repeatedly,
    limits_can_be_renamed_repeatedly,
    many_changes_do_not_block_decisions,
    a_pool_with_a_new_window_starts_empty_beside_the_old_one,
    a_superseded_window_ignores_the_signal,
    unnamed_limits_can_be_reordered,
    soft_and_elastic_do_not_inherit_a_neighbours_counter,
    limits_can_be_renamed_and_moved,
    a_new_window_starts_empty_beside_the_old_one,
    rules_are_swapped_under_traffic,
    conflicting_rules_change_nothing,
    signals_keep_their_level,
    a_restored_domain_finds_its_counters,
);
