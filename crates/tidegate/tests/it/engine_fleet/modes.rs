//! The modes of rules: what the charges of a plan have, and what an explanation says.

use std::num::NonZeroU32;

use serde_json::{Value, json};
use tidegate::store::{Carry, Mode};

use crate::engine::fixture::with_request;
use crate::engine_fleet::fleet::Fleet;

const RULES: &str = "
domain: api
pools: { spare: { limit: 90 per minute, algorithm: sliding_log } }
rules:
  - { name: strict, limit: 600 per minute }
  - { name: leased, limits: [ 600 per minute, 5 per second ], mode: leased }
  - { name: lease-time, limit: 600 per minute, mode: leased, lease_time: 5s }
  - { name: eventual, limit: 600 per minute, mode: eventual, carry: false }
  - { name: elastic, limit: 10 per minute, action: { elastic: { min: 1, max: 20, pool: spare } }, mode: leased }
";

fn leased(lease_us: u32) -> Mode {
    Mode::Leased { lease_us: NonZeroU32::new(lease_us).unwrap() }
}

#[test]
fn charges_have_the_mode_of_their_rule_and_the_times_of_their_limit() {
    let fleet = Fleet::new(1, RULES);
    fleet.first().check("user=1");
    let sync_us = NonZeroU32::new(100_000).unwrap();
    let eventual = Mode::Eventual { sync_us, carry: Carry::Off };
    let ours = [Mode::Strict, leased(1_000_000), leased(100_000), leased(5_000_000), eventual];
    // The rule with a pool has a counter for its maximum, and one for what is always granted.
    let expected: Vec<Mode> = ours.into_iter().chain([leased(1_000_000); 2]).collect();
    assert_eq!(fleet.store.modes(), std::slice::from_ref(&expected));

    // Nothing of what is always granted is left, so the next request borrows from the pool, which any rule may use.
    fleet.first().check("user=1");
    let borrowing = [&expected[..6], &[Mode::Strict]].concat();
    assert_eq!(fleet.store.modes().last(), Some(&borrowing));
}

#[test]
fn superseded_counters_are_strict() {
    let rule = |limit: &str| format!("domain: api\nrules: [ {{ name: a, limit: {limit}, mode: leased }} ]");
    let fleet = Fleet::new(1, &rule("6 per hour"));
    fleet.first().reload(&rule("5 per minute"));
    fleet.first().check("user=1");
    assert_eq!(fleet.store.modes(), [[leased(1_000_000), Mode::Strict]]);
    let local = |limit: &str| rule(limit).replace("leased", "local");
    let fleet = Fleet::new(1, &local("6 per hour"));
    fleet.first().reload(&local("5 per minute"));
    fleet.first().check("user=1");
    assert_eq!(fleet.store.calls(), 0, "all counters are in this process");
}

/// With the number of nodes that are live, and for a memory store as local.
#[test]
fn an_explanation_has_the_mode_and_the_bound() {
    let fleet = Fleet::new(4, RULES);
    let text = fleet.first().explain("user=1");
    let leased = "admits at most 1209 in any 1m, 610 of them at once: 10 more than with mode strict, because units may be \
                  used up to 1s after they were counted (mode leased, 4 nodes)\n";
    assert!(text.contains(leased), "{text}");
    assert!(text.contains("(3 x 2 x 100ms)") && text.contains("(mode eventual, 4 nodes)\n"), "{text}");
    let fixture = fleet.first();
    let document = with_request("user=1", 1, |request| {
        fixture.setup.explain(&fixture.engine, request, |explanation| explanation.to_json())
    });
    let document: Value = serde_json::from_str(&document).unwrap();
    let limit = |rule: usize| &document["descriptors"][0]["rules"][rule]["limits"][0];
    assert_eq!((&limit(0)["mode"], &limit(0)["bound"]["units"]), (&json!("strict"), &json!(1_199)));
    assert_eq!((&limit(1)["mode"], &limit(1)["bound"]["units"]), (&json!("leased"), &json!(1_209)));
    assert_eq!((&limit(3)["mode"], &limit(3)["bound"]["nodes"]), (&json!("eventual"), &json!(4)));
    let excess = json!({
        "units_per_1000_per_second_and_node": 600, "round_trips": 3, "units_in_all_max": 4 * 1_199, "paid_back": true,
    });
    assert_eq!(limit(3)["bound"]["excess"], excess);
}
