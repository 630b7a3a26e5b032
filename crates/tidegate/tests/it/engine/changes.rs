//! Rules that change under traffic: nobody is reset.

use crate::engine::bench::domains;
use crate::engine::setup::{Setup, over_each_store};

fn rules(rule: &str) -> String {
    format!("{{ domain: api, rules: [ {{ key: [user], {rule} }} ] }}")
}

const FIVE: &str = "name: a, limit: { limit: 5 per minute, algorithm: fixed_window }";

/// How many pass after an edit, when two were used before it.
fn left_after(setup: Setup, edit: &str) -> usize {
    let bench = setup.bench(&rules(FIVE));
    assert_eq!(bench.passing("user=1", 2), 2);
    bench.reload(&rules(edit));
    bench.passing("user=1", 9)
}

fn the_same_again(setup: Setup) {
    assert_eq!(left_after(setup, FIVE), 3);
}

fn another_number(setup: Setup) {
    assert_eq!(left_after(setup, "name: a, limit: { limit: 7 per minute, algorithm: fixed_window }"), 5);
    assert_eq!(left_after(setup, "name: a, limit: { limit: 1 per minute, algorithm: fixed_window }"), 0);
}

fn another_match_action_and_order_of_the_key(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    assert_eq!(left_after(setup, &format!("name: a, match: {{ user: {{ exists: true }} }}, {limit}")), 3);
    assert_eq!(left_after(setup, &format!("name: a, action: {{ soft: {{ margin: 20% }} }}, {limit}")), 4);
}

fn another_name_resets_unless_it_says_what_it_was(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    assert_eq!(left_after(setup, &format!("name: b, {limit}")), 5);
    assert_eq!(left_after(setup, &format!("name: b, was: a, {limit}")), 3);
    assert_eq!(left_after(setup, &format!("name: c, was: [b, a], {limit}")), 3);
}

fn names_may_change_more_than_once_and_forget_what_they_were(setup: Setup) {
    let limit = "limit: { limit: 5 per minute, algorithm: fixed_window }";
    let bench = setup.bench(&rules(FIVE));
    bench.ask("user=1");
    for (edit, left) in [("name: b, was: a", 3), ("name: c, was: b", 2), ("name: c", 1)] {
        bench.reload(&rules(&format!("{edit}, {limit}")));
        assert_eq!(bench.ask("user=1").remaining, left);
    }
    // A newcomer that takes the old name has counters of its own, and takes none away.
    bench.reload(&format!(
        "{{ domain: api, rules: [ {{ name: a, key: [user], {limit} }}, {{ name: c, key: [user], {limit} }} ] }}"
    ));
    let told = bench.ask("user=1");
    assert_eq!((told.limits[0].2, told.limits[1].2), (4, 0));
}

fn limits_may_change_names_more_than_once_and_forget_what_they_were(setup: Setup) {
    let rule = |name: &str| {
        rules(&format!("name: a, limits: [ {{ limit: 5 per minute, algorithm: fixed_window, {name} }} ]"))
    };
    let bench = setup.bench(&rule("name: a"));
    bench.ask("user=1");
    for (name, left) in [("name: b, was: a", 3), ("name: c, was: b", 2), ("name: c", 1)] {
        bench.reload(&rule(name));
        assert_eq!(bench.ask("user=1").remaining, left, "{name}");
    }
}

fn many_changes_keep_nobody_from_being_decided(setup: Setup) {
    let file = |hours: usize| {
        let rule = |number: usize| {
            format!(
                "  - {{ name: r{number}, limit: {{ limit: 9 per {hours}h, algorithm: fixed_window }} }}\n"
            )
        };
        format!("domain: api\nrules:\n{}", (0..8).map(rule).collect::<String>())
    };
    let bench = setup.bench(&file(24));
    for hours in 25..60 {
        bench.reload(&file(hours));
    }
    assert_eq!(bench.passing("user=1", 20), 9);
}

fn a_pool_with_another_window_starts_empty_beside_the_old_one(setup: Setup) {
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
    let bench = setup.bench(&file("2 per minute"));
    assert_eq!(bench.passing("user=1", 9), 3);
    bench.reload(&file("100 per hour"));
    assert_eq!(bench.passing("user=1", 9), 0);
    bench.advance(60);
    assert_eq!(bench.passing("user=1", 90), 50);
}

fn an_old_window_keeps_its_own_units_whatever_the_signal(setup: Setup) {
    let file = |limit: &str, max: u64| {
        rules(&format!(
            "name: a, limit: {{ limit: {limit}, algorithm: fixed_window }}, \
             action: {{ elastic: {{ max: {max}, signal: capacity }} }}"
        ))
    };
    let bench = setup.bench(&file("6000 per hour", 9000));
    assert_eq!(bench.passing("user=1", 200), 200);
    bench.reload(&file("100 per minute", 150));
    bench.engine.push_signal("capacity", "0".parse().unwrap()).unwrap();
    assert_eq!(bench.passing("user=1", 200), 100);
}

fn limits_without_names_may_change_places(setup: Setup) {
    let file = |limits: &str| rules(&format!("name: a, limits: [ {limits} ]"));
    let minute = "limit: 5 per minute, algorithm: fixed_window";
    let hour = "limit: 50 per minute, algorithm: fixed_window";
    let bench = setup.bench(&file(&format!("{{ {minute} }}, {{ {hour}, cost: 2 }}")));
    bench.ask("user=1");
    bench.reload(&file(&format!("{{ {hour}, cost: 2, was: 2 }}, {{ {minute}, was: 1 }}")));
    let told = bench.ask("user=1");
    assert_eq!((told.limits[0].2, told.limits[1].2), (46, 3));
}

fn soft_and_elastic_do_not_take_over_what_stands_beside_them(setup: Setup) {
    let file = |action: &str| {
        format!(
            "{{ domain: api, pools: {{ spare: 100 per minute }}, rules: [ {{ name: a, \
             limit: {{ limit: 2 per minute, algorithm: fixed_window }}, action: {action} }} ] }}"
        )
    };
    let bench = setup.bench(&file("{ soft: { margin: 400% } }"));
    assert_eq!(bench.passing("user=1", 3), 3);
    bench.reload(&file("{ elastic: { max: 10, pool: spare } }"));
    assert_eq!(bench.ask("user=1").fate, tidegate::rules::Fate::Allowed);
}

fn limits_may_be_renamed_and_moved(setup: Setup) {
    let limit = |name: &str| {
        format!(
            "name: a, limits: [ {{ limit: 100 per hour, name: other }}, \
             {{ limit: 5 per minute, algorithm: fixed_window, {name} }} ]"
        )
    };
    let bench = setup.bench(&rules(
        "name: a, limits: [ { limit: 5 per minute, algorithm: fixed_window, name: x }, { limit: 100 per hour, name: other } ]",
    ));
    bench.ask("user=1");
    bench.reload(&rules(&limit("name: x")));
    assert_eq!(bench.ask("user=1").remaining, 3);
    bench.reload(&rules(&limit("name: y, was: x")));
    assert_eq!(bench.ask("user=1").remaining, 2);
}

fn another_window_starts_empty_beside_the_old_one(setup: Setup) {
    let bench = setup.bench(&rules(FIVE));
    assert_eq!(bench.passing("user=1", 5), 5);
    bench.advance(20);
    bench.reload(&rules("name: a, limit: { limit: 100 per hour, algorithm: fixed_window }"));
    let denied = bench.ask("user=1");
    assert_eq!((denied.fate.passes(), denied.retry_after_ms), (false, Some(40_000)));
    // The old limit opens a new window, and is still enforced until a minute after the change.
    bench.advance(40);
    assert_eq!(bench.passing("user=1", 9), 5);
    let denied = bench.ask("user=1");
    assert_eq!(denied.retry_after_ms, Some(20_000));
    bench.advance(20);
    assert_eq!(bench.passing("user=1", 200), 95);
}

fn rules_are_swapped_under_traffic(setup: Setup) {
    let file = |other: &str| {
        format!(
            "{{ domain: api, rules: [ {{ name: {other}, match: {{ user: nobody }}, limit: 5 per minute }}, \
             {{ name: a, key: [user], limit: {{ limit: 1000 per hour, algorithm: fixed_window }} }} ] }}"
        )
    };
    let (one, other) = (domains(&file("one")), domains(&file("other")));
    let bench = setup.bench(&file("one"));
    let admitted: usize = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(|| bench.passing("user=1", 1000))).collect();
        for round in 0..200 {
            let domains = if round % 2 == 0 { &other } else { &one };
            bench.engine.replace(domains.clone()).unwrap();
        }
        askers.into_iter().map(|asker| asker.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1000);
}

fn rules_that_do_not_go_together_change_nothing(setup: Setup) {
    let bench = setup.bench(&rules(FIVE));
    let mut twice = domains(&rules("name: b, limit: 1 per minute"));
    twice.extend(domains(&rules("name: c, limit: 1 per minute")));
    let error = bench.engine.replace(twice).unwrap_err();
    assert_eq!(error.to_string(), "there are two domains `api` (hint: make them one)");
    assert_eq!(bench.ask("user=1").rule.as_deref(), Some("a"));
}

fn signals_stay_where_they_are(setup: Setup) {
    let elastic = "name: a, limit: { limit: 2 per minute, algorithm: fixed_window }, \
                   action: { elastic: { min: 1, max: 5, signal: capacity } }";
    let bench = setup.bench(&rules(elastic));
    bench.engine.push_signal("capacity", "1".parse().unwrap()).unwrap();
    bench.reload(&rules(elastic));
    assert_eq!(bench.passing("user=1", 9), 5);
}

fn a_domain_that_comes_back_after_it_was_gone_finds_its_counters(setup: Setup) {
    let bench = setup.bench(&rules(FIVE));
    bench.ask("user=1");
    bench.engine.replace(Vec::new()).unwrap();
    assert_eq!(bench.ask("user=1").rule, None);
    bench.reload(&rules(FIVE));
    assert_eq!(bench.ask("user=1").remaining, 3);
}

over_each_store!(
    the_same_again,
    another_number,
    another_match_action_and_order_of_the_key,
    another_name_resets_unless_it_says_what_it_was,
    names_may_change_more_than_once_and_forget_what_they_were,
    limits_may_change_names_more_than_once_and_forget_what_they_were,
    many_changes_keep_nobody_from_being_decided,
    a_pool_with_another_window_starts_empty_beside_the_old_one,
    an_old_window_keeps_its_own_units_whatever_the_signal,
    limits_without_names_may_change_places,
    soft_and_elastic_do_not_take_over_what_stands_beside_them,
    limits_may_be_renamed_and_moved,
    another_window_starts_empty_beside_the_old_one,
    rules_are_swapped_under_traffic,
    rules_that_do_not_go_together_change_nothing,
    signals_stay_where_they_are,
    a_domain_that_comes_back_after_it_was_gone_finds_its_counters,
);
