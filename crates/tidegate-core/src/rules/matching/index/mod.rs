//! All rules of a domain at once, at a cost that hardly depends on how many there are.
//!
//! ```text
//! slot      what values are asked for by: attributes, and names at places among the entries
//! token     what stands for a value, the shape of a path, a block of addresses
//! offer     what a rule can be found by                  lengths   few lengths of beginnings and ends
//! build     every rule is put where the fewest others are
//! table     which rules a token leads to                 tree      the shapes of paths
//! view      a descriptor, sorted by slot                 search    the rules that it may match
//! check     what is left to check of these
//! ```
//!
//! Every rule is found by one thing that it asks for: a value, one of a set, a block of addresses, the shape of a
//! path or one of several, a beginning or an end, or that an attribute is there at all. Rules that still have many
//! others beside them are told apart by the values that they ask for besides, all together. What a rule was found by
//! is proved; the rest is checked as the plain matcher does. Only rules with nothing but negations, or with nothing
//! at all, are checked for every descriptor.
//!
//! # What a hostile descriptor can cost
//!
//! All hashes are keyed, so nobody can choose values that meet. With B bytes in N entries, R rules, and C rules that
//! are found: reading takes B + N log N steps; looking up takes N times the number of different lengths that rules
//! ask for (32 of beginnings, 32 of ends, 33 and 129 of blocks at most) and for a path a step for each node of the
//! tree that it leads to, and none beyond the longest shape. Each rule is a candidate once, and so C is R at most.
//! Checking a candidate takes a search for each value it asks for, and for each other pattern that it was not found
//! by a comparison with the values of that name, C times their length in all. Only long values, or a name that stands
//! thousands of times, make that much; listeners prevent both by bounds on what they accept.

mod build;
mod check;
mod affix_lengths;
mod matches;
mod lookup_key;
mod search;
mod slot;
mod table;
mod token;
mod path_trie;
mod descriptor_view;

pub use matches::RuleMatches;

use build::IndexBuilder;
use check::{CheckInput, Check};
use search::Search;
use slot::Slots;
use table::Table;
use path_trie::PathTrie;
use descriptor_view::DescriptorView;

use crate::rules::{Apply, Descriptor, Rule};

/// Finds the rules that match a descriptor.
///
/// ```
/// use tidegate_core::rules::{Apply, Attribute, Condition, Descriptor, Entry, Index, Matches, Pattern, Rule};
///
/// let when = |name: &str, pattern| Condition { attribute: Attribute::named(name), pattern };
/// let users = Rule { conditions: vec![when("path", Pattern::path("/users/{id}")?)], ..Rule::default() };
/// let posts = Rule { conditions: vec![when("method", Pattern::exact("POST")?)], ..Rule::default() };
/// let rules = [users, posts, Rule::default()];
/// let index = Index::new(&rules);
///
/// let entries = [Entry { key: "method", value: "GET" }, Entry { key: "path", value: "/users/7?all" }];
/// let mut matches = Matches::new();
/// index.matching(&rules, &Descriptor::new(&entries, 1), Apply::All, &mut matches);
/// assert_eq!(matches.as_slice(), [0, 2]);
/// # Ok::<(), tidegate_core::rules::PatternError>(())
/// ```
#[derive(Debug)]
pub struct RuleIndex {
    slots: Slots,
    tree: PathTrie,
    table: Table,
    checks: Vec<Check>,
    check_ranges: Vec<CheckRange>,
    /// Rules that nothing leads to.
    unindexed: Vec<u32>,
}

/// Where the checks of a rule are: first those that are proved when it is found, then the rest.
#[derive(Clone, Copy, Debug)]
struct CheckRange {
    start: u32,
    proved_end: u32,
    end: u32,
}

impl RuleIndex {
    /// An index of these rules; of the first 2^32 of them, if there are more.
    pub fn new(rules: &[Rule]) -> Self {
        IndexBuilder::build(rules)
    }

    /// The rules that match a descriptor, or the first of them, instead of what `matches` held.
    ///
    /// The rules have to be those that the index was made of. As long as the descriptor has no more than 16
    /// attributes that rules ask for, and no more than 8 rules match and 64 come into question (one with a list of
    /// shapes of paths once for each that the path has), no memory is allocated.
    pub fn matching_rules(&self, rules: &[Rule], descriptor: &Descriptor<'_>, apply: Apply, matches: &mut RuleMatches) {
        matches.clear();
        let mut view = DescriptorView::new();
        view.read(&self.slots, descriptor);
        let asked = CheckInput { slots: &self.slots, view: &view, descriptor };
        let mut search = Search::new(self, rules, &asked);
        for number in search.run() {
            let rule = rules.get(*number as usize);
            if self.remaining_checks(*number).iter().all(|check| check.holds(&asked, rule)) {
                matches.push(*number);
                if apply == Apply::First {
                    return;
                }
            }
        }
    }

    /// What holds for every descriptor that the rule is found for.
    fn proved_checks(&self, rule: u32) -> &[Check] {
        let CheckRange { start, proved_end: proved, .. } = self.check_ranges[rule as usize];
        &self.checks[start as usize..proved as usize]
    }

    /// What is still to be checked when the rule is found.
    fn remaining_checks(&self, rule: u32) -> &[Check] {
        let CheckRange { proved_end: proved, end, .. } = self.check_ranges[rule as usize];
        &self.checks[proved as usize..end as usize]
    }
}
