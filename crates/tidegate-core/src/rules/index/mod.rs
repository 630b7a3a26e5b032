//! Finds all matching rules of a domain, at a cost that hardly depends on the number of rules.
//!
//! ```text
//! rule_index       the index, and how it answers a descriptor
//! slot             what rules put conditions on: attributes, and names at positions among the entries
//! token            hashes that stand for a value, a path pattern or an address block
//! lookup_key       what a rule can be found by           affix_lengths    limits the lengths of prefixes and suffixes
//! build            files every rule where the fewest other rules are
//! table            which rules a token leads to          path_trie        path patterns
//! descriptor_view  a descriptor, sorted by slot          search           the rules that it may match
//! check            what remains to be checked            matches          the rules that match
//! ```
//!
//! Each rule is filed under one lookup key, the one that it shares with the fewest other rules. A lookup key is a
//! value, a set of values, address blocks, path patterns, a prefix, a suffix, or the presence of an attribute. If many
//! rules share a key, they are distinguished by all the other exact values that they require, taken together. So a
//! request meets few rules that it does not match.
//!
//! The lookup proves the condition that it is based on. The other conditions of the found rules are then checked one by
//! one, as `matching.rs` defines. A rule that has only a regular expression is checked whenever its attribute is
//! present. A rule with only negations, or without conditions, is checked for every descriptor.
//!
//! # What a hostile descriptor can cost
//!
//! All hashes are keyed, so a client cannot choose values that collide. Take B bytes in N entries, R rules, and C rules
//! that are found:
//!
//! - Reading takes B + N log N steps.
//! - Looking up takes N times the number of different lengths that rules require: at most 32 of prefixes, 32 of
//!   suffixes, and 33 and 129 of address blocks. For a path it takes one step for each node of the trie that the path
//!   leads to, and none beyond the longest pattern. Each rule is a candidate once, so C is at most R.
//! - Checking a candidate takes one search for each value that it requires. For every other pattern that was not
//!   proved, it takes a comparison with the values of that name: C times their length in total.
//!
//! Only long values, or a name that occurs thousands of times, make that expensive. Listeners prevent both by bounding
//! what they accept.

mod affix_lengths;
mod build;
mod check;
mod descriptor_view;
mod lookup_key;
mod matches;
mod path_trie;
mod rule_index;
mod search;
mod slot;
mod table;
mod token;

pub use matches::RuleMatches;
pub use rule_index::RuleIndex;
