//! The index finds the same rules as checking every rule.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_core::rules::{Apply, Descriptor, Pattern, Rule, RuleIndex, RuleMatches};

use crate::matching::strategies::{
    OwnedEntries, crowded_descriptor, crowded_rules, descriptor, path_value, rules, single_path_pattern,
};
use crate::matching::{holds, with_descriptor};

/// The rules that match when each is checked.
fn matching_one_by_one(rules: &[Rule], descriptor: &Descriptor<'_>, apply: Apply) -> Vec<u32> {
    let mut matching = Vec::new();
    for (number, rule) in (0u32..).zip(rules).filter(|(_, rule)| rule.mismatch(descriptor).is_none()) {
        matching.push(number);
        if apply == Apply::First && !rule.has_unread_value(descriptor) {
            break;
        }
    }
    matching
}

/// Compares an index with checking every rule.
fn assert_equivalent(rules: &[Rule], descriptors: &[OwnedEntries]) -> Result<(), TestCaseError> {
    let index = RuleIndex::new(rules);
    let mut matches = RuleMatches::from_iter([7]);
    for entries in descriptors {
        for apply in [Apply::All, Apply::First] {
            with_borrowed(entries, |descriptor| {
                index.matching_rules(rules, descriptor, apply, &mut matches);
                prop_assert_eq!(
                    matches.as_slice(),
                    matching_one_by_one(rules, descriptor, apply),
                    "{:?} {:?}",
                    apply,
                    entries
                );
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn with_borrowed<T>(entries: &OwnedEntries, then: impl FnOnce(&Descriptor<'_>) -> T) -> T {
    let entries: Vec<(&str, &str)> = entries.iter().map(|(key, value)| (&**key, &**value)).collect();
    with_descriptor(&entries, then)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(250))]

    #[test]
    fn the_index_finds_any_rules(rules in rules(), descriptors in prop::collection::vec(descriptor(), 1..6)) {
        assert_equivalent(&rules, &descriptors)?;
    }

    #[test]
    fn the_index_finds_rules_with_many_rules_per_value(
        rules in crowded_rules(),
        descriptors in prop::collection::vec(descriptor(), 1..4),
    ) {
        assert_equivalent(&rules, &descriptors)?;
    }

    #[test]
    fn a_path_set_matches_what_its_patterns_match(
        patterns in prop::collection::vec(single_path_pattern(), 1..12),
        values in prop::collection::vec(path_value(), 1..12),
    ) {
        let set = Pattern::paths(patterns.clone()).unwrap();
        for value in &values {
            let path = [("path", value.as_str())];
            let any = patterns.iter().any(|pattern| holds("path", &Pattern::Path(pattern.clone()), &path));
            prop_assert_eq!(holds("path", &set, &path), any, "{} and {}", set, value);
        }
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(75))]

    #[test]
    fn the_index_finds_rules_for_repeated_names(
        rules in prop_oneof![rules(), crowded_rules()],
        descriptors in prop::collection::vec(crowded_descriptor(), 1..3),
    ) {
        assert_equivalent(&rules, &descriptors)?;
    }
}

/// A comparison in which nothing ever matches would prove nothing.
#[test]
fn a_fair_share_of_random_rules_match() {
    let mut runner = TestRunner::deterministic();
    for is_crowded in [false, true] {
        let (mut pairs, mut matching, mut with_entries, mut descriptors) = (0, 0, 0, 0);
        for _ in 0..500 {
            let strategy = if is_crowded { crowded_rules().boxed() } else { rules().boxed() };
            let rules = strategy.new_tree(&mut runner).unwrap().current();
            let entries = descriptor().new_tree(&mut runner).unwrap().current();
            let found =
                with_borrowed(&entries, |descriptor| matching_one_by_one(&rules, descriptor, Apply::All));
            pairs += rules.len();
            matching += found.len();
            with_entries += found.iter().filter(|number| rules[**number as usize].entries.is_some()).count();
            descriptors += usize::from(!found.is_empty());
        }
        assert!(matching * 100 > pairs * 3, "{matching} of {pairs}, crowded {is_crowded}");
        assert!(matching * 2 < pairs, "{matching} of {pairs}, crowded {is_crowded}");
        assert!(descriptors > 200, "{descriptors} of 500 descriptors, crowded {is_crowded}");
        assert!(is_crowded || with_entries > 50, "{with_entries} with entries");
    }
}
