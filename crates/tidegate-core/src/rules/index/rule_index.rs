//! The index, and how it answers a descriptor.

use super::RuleMatches;
use super::build::IndexBuilder;
use super::check::{Check, CheckInput};
use super::descriptor_view::DescriptorView;
use super::path_trie::PathTrie;
use super::search::Search;
use super::slot::Slots;
use super::table::Table;
use crate::rules::{Apply, Descriptor, Rule};

/// Finds the rules that match a descriptor.
///
/// ```
/// use tidegate_core::rules::{Apply, Attribute, Condition, Descriptor, Entry, Pattern, Rule, RuleIndex, RuleMatches};
///
/// let when = |name: &str, pattern| Condition { attribute: Attribute::from_name(name), pattern };
/// let users = Rule { conditions: vec![when("path", Pattern::path("/users/{id}")?)], ..Rule::default() };
/// let posts = Rule { conditions: vec![when("method", Pattern::exact("POST")?)], ..Rule::default() };
/// let rules = [users, posts, Rule::default()];
/// let index = RuleIndex::new(&rules);
///
/// let entries = [Entry { key: "method", value: "GET" }, Entry { key: "path", value: "/users/7?all" }];
/// let mut matches = RuleMatches::new();
/// index.matching_rules(&rules, &Descriptor::new(&entries, 1), Apply::All, &mut matches);
/// assert_eq!(matches.as_slice(), [0, 2]);
/// # Ok::<(), tidegate_core::rules::PatternError>(())
/// ```
#[derive(Debug)]
pub struct RuleIndex {
    pub(super) slots: Slots,
    pub(super) path_trie: PathTrie,
    pub(super) table: Table,
    pub(super) checks: Vec<Check>,
    pub(super) check_ranges: Vec<CheckRange>,
    /// Rules that no token leads to, ascending. They are checked for every descriptor.
    pub(super) unindexed: Vec<u32>,
}

/// The range of a rule's checks: first those that are proved when the rule is found, then the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckRange {
    pub start: u32,
    pub proved_end: u32,
    pub end: u32,
}

impl RuleIndex {
    /// An index of these rules. If there are more than 2^32, only of the first 2^32.
    pub fn new(rules: &[Rule]) -> Self {
        IndexBuilder::build(rules)
    }

    /// Replaces the content of `matches` with the rules that match a descriptor, or with only the first of them and
    /// those before it that match because of a [value that is too long](Rule::has_unread_value).
    ///
    /// `rules` must be the rules that the index was made of. Nothing is allocated if the descriptor has at most 16
    /// attributes that rules use, at most 8 rules match, and there are at most 64 candidates. A rule with several path
    /// patterns counts once for each pattern that the path matches.
    pub fn matching_rules(
        &self,
        rules: &[Rule],
        descriptor: &Descriptor<'_>,
        apply: Apply,
        matches: &mut RuleMatches,
    ) {
        matches.clear();
        let mut view = DescriptorView::new();
        view.read(&self.slots, descriptor);
        let input = CheckInput { slots: &self.slots, view: &view, descriptor };
        let mut search = Search::new(self, rules, &input);
        for number in search.run() {
            let rule = rules.get(*number as usize);
            if self.remaining_checks(*number).iter().all(|check| check.holds(&input, rule)) {
                matches.push(*number);
                let is_certain = || !rule.is_some_and(|rule| rule.has_unread_value(descriptor));
                if apply == Apply::First && is_certain() {
                    return;
                }
            }
        }
    }

    /// The checks that hold whenever the rule is found.
    pub(super) fn proved_checks(&self, rule: u32) -> &[Check] {
        let CheckRange { start, proved_end, .. } = self.check_ranges[rule as usize];
        &self.checks[start as usize..proved_end as usize]
    }

    /// The checks that remain when the rule is found.
    fn remaining_checks(&self, rule: u32) -> &[Check] {
        let CheckRange { proved_end, end, .. } = self.check_ranges[rule as usize];
        &self.checks[proved_end as usize..end as usize]
    }
}
