//! Finds the wildcards that a key matches. All wildcards are in memory.
//!
//! A wildcard has one attribute with a star, at the beginning or at the end, and exact values for all others. All wildcards of a
//! rule whose literal texts are equally long, at the same attribute, are found by one look-up in a hash map. So the time grows
//! with the number of different lengths, not with the number of wildcards.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;
use tidegate_core::rules::{FoundEntry, OverrideScope};
use tidegate_core::{KeyValue, key_values};

use super::key_name::{KeyName, ValuePattern};

/// The most wildcards.
pub const WILDCARDS_MAX: usize = 100_000;

/// All wildcards.
#[derive(Clone, Debug, Default)]
pub(super) struct Wildcards {
    /// By their keys in the config store.
    all: BTreeMap<Box<str>, FoundEntry>,
    scopes: HashMap<OverrideScope, ScopeWildcards>,
}

/// A wildcard that was set, changed or deleted.
#[derive(Clone, Debug)]
pub(super) struct WildcardChange {
    /// Its key in the config store.
    pub id: Box<str>,
    /// The version of the change.
    pub version: u64,
    /// `None` if it was deleted, or cannot be used.
    pub overrides: Option<FoundEntry>,
}

#[derive(Clone, Debug, Default)]
struct ScopeWildcards {
    shapes: BTreeSet<Shape>,
    by_text: HashMap<LookupText, Found>,
}

/// What wildcards that are found by one look-up have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    /// The position of the attribute with the star.
    part: usize,
    is_prefix: bool,
    literal_bytes: usize,
}

#[derive(Clone, Debug)]
struct Found {
    overrides: FoundEntry,
    literal_chars: usize,
    is_prefix: bool,
}

/// The shape and the values of a wildcard, or of a key as this shape sees it.
type LookupText = SmallVec<[u8; 128]>;

impl Wildcards {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is one with this key in the config store.
    pub fn contains(&self, id: &str) -> bool {
        self.all.contains_key(id)
    }

    /// The same wildcards after changes. Wildcards above the maximum are not added; the second value says how many. `None` if
    /// the changes were known.
    pub fn with_changes(&self, changes: Vec<WildcardChange>) -> Option<(Self, usize)> {
        let is_newer = |change: &WildcardChange| match (self.all.get(&change.id), &change.overrides) {
            (Some(known), _) => known.version < change.version,
            (None, changed) => changed.is_some(),
        };
        let changes: Vec<WildcardChange> = changes.into_iter().filter(is_newer).collect();
        if changes.is_empty() {
            return None;
        }
        let mut all = self.all.clone();
        let mut refused = 0;
        for WildcardChange { id, overrides, .. } in changes {
            match overrides {
                None => drop(all.remove(&id)),
                Some(_) if all.len() >= WILDCARDS_MAX && !all.contains_key(&id) => refused += 1,
                Some(overrides) => drop(all.insert(id, overrides)),
            }
        }
        Some((Self::new(all), refused))
    }

    /// All wildcards that were read from the store after a version, and those that are newer here: this node has written them
    /// meanwhile.
    pub fn replaced_by(&self, read: Vec<WildcardChange>, latest: u64) -> (Self, usize) {
        let written = self.all.iter().filter(|(_, known)| known.version > latest);
        let written = written.map(|(id, known)| WildcardChange {
            id: id.clone(),
            version: known.version,
            overrides: Some(known.clone()),
        });
        // Later ones replace earlier ones.
        let changes = read.into_iter().chain(written).collect();
        Self::default().with_changes(changes).unwrap_or_default()
    }

    fn new(all: BTreeMap<Box<str>, FoundEntry>) -> Self {
        let mut scopes: HashMap<OverrideScope, ScopeWildcards> = HashMap::new();
        for (id, overrides) in &all {
            let Ok(name) = KeyName::decode(id) else { continue };
            let star = name.parts.iter().position(|(_, value)| value.is_wildcard());
            let (Some(part), Some(key)) = (star, name.key_bytes()) else { continue };
            let literal = name.parts[part].1.literal();
            let is_prefix = matches!(name.parts[part].1, ValuePattern::Prefix(_));
            let shape = Shape { part, is_prefix, literal_bytes: literal.len() };
            let Some(text) = shape.lookup_text(&key, |_| None) else { continue };
            let literal_chars = name.parts.iter().map(|(_, value)| value.literal().chars().count()).sum();
            let scope = scopes.entry(name.scope()).or_default();
            scope.shapes.insert(shape);
            scope.by_text.insert(text, Found { overrides: overrides.clone(), literal_chars, is_prefix });
        }
        Self { all, scopes }
    }

    /// The wildcards that a key matches, those with the most literal characters first.
    ///
    /// A key has only a digest of a value that is too long. `long_value` returns the value of the attribute at a position.
    pub fn find<'v>(
        &self,
        scope: OverrideScope,
        key: &[u8],
        long_value: impl Fn(usize) -> Option<Cow<'v, str>>,
    ) -> Vec<FoundEntry> {
        let Some(scope) = self.scopes.get(&scope) else { return Vec::new() };
        let texts = scope.shapes.iter().filter_map(|shape| shape.lookup_text(key, &long_value));
        let mut found: Vec<&Found> = texts.filter_map(|text| scope.by_text.get(&text)).collect();
        found.sort_by_key(|found| (Reverse(found.literal_chars), !found.is_prefix));
        found.into_iter().map(|found| found.overrides.clone()).collect()
    }
}

impl Shape {
    /// What a wildcard of this shape has to be equal to. `None` if the key is too short for the shape.
    fn lookup_text<'v>(
        &self,
        key: &[u8],
        long_value: impl Fn(usize) -> Option<Cow<'v, str>>,
    ) -> Option<LookupText> {
        let mut text = LookupText::new();
        text.extend_from_slice(&[u8::try_from(self.part).ok()?, u8::from(self.is_prefix)]);
        text.extend_from_slice(&self.literal_bytes.to_le_bytes());
        for (position, value) in key_values(key).enumerate() {
            if position == self.part {
                let long;
                let value = match value {
                    KeyValue::Text(value) => value,
                    KeyValue::Digest(_) => {
                        long = long_value(position)?;
                        long.as_bytes()
                    }
                    KeyValue::Absent | KeyValue::Address(_) => return None,
                };
                let start = if self.is_prefix { 0 } else { value.len().checked_sub(self.literal_bytes)? };
                text.extend_from_slice(value.get(start..start + self.literal_bytes)?);
            } else {
                match value {
                    KeyValue::Text(value) => push(&mut text, b't', value),
                    KeyValue::Address(std::net::IpAddr::V4(address)) => {
                        push(&mut text, b'4', &address.octets());
                    }
                    KeyValue::Address(std::net::IpAddr::V6(address)) => {
                        push(&mut text, b'6', &address.octets());
                    }
                    KeyValue::Absent | KeyValue::Digest(_) => return None,
                }
            }
        }
        Some(text)
    }
}

/// Appends a value with its length, so that consecutive values cannot run into each other.
fn push(text: &mut LookupText, kind: u8, value: &[u8]) {
    text.push(kind);
    text.extend_from_slice(&value.len().to_le_bytes());
    text.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn name(parts: &[(&str, &str)]) -> KeyName {
        let part = |(name, value): &(&str, &str)| ((*name).into(), ValuePattern::parse(value).unwrap());
        KeyName { domain: "api".into(), rule: "r".into(), parts: parts.iter().map(part).collect() }
    }

    fn wildcards(names: &[&[(&str, &str)]]) -> Wildcards {
        let changes = names.iter().map(|parts| {
            let id = name(parts).encode().unwrap();
            change(id, 1, true)
        });
        Wildcards::default().with_changes(changes.collect()).unwrap().0
    }

    fn change(id: Box<str>, version: u64, is_set: bool) -> WildcardChange {
        let wildcard = Some(id.clone().into());
        let entry = FoundEntry { overrides: Arc::default(), version, wildcard };
        WildcardChange { id, version, overrides: is_set.then_some(entry) }
    }

    fn found(wildcards: &Wildcards, parts: &[(&str, &str)]) -> Vec<String> {
        let key = name(parts);
        let found = wildcards.find(key.scope(), &key.key_bytes().unwrap(), |_| None);
        let name = |found: &FoundEntry| KeyName::decode(found.wildcard.as_deref().unwrap()).unwrap();
        found.iter().map(|found| name(found).parts[0].1.to_string()).collect()
    }

    #[test]
    fn the_most_literal_wildcard_comes_first() {
        let all = wildcards(&[
            &[("user", "*@acme.com")],
            &[("user", "ann*")],
            &[("user", "*.com")],
            &[("user", "ann@*")],
            &[("user", "bob*")],
            &[("user", "*n@acme.com")],
        ]);
        assert_eq!(
            found(&all, &[("user", "ann@acme.com")]),
            ["*n@acme.com", "*@acme.com", "ann@*", "*.com", "ann*"].map(String::from).to_vec()[..].to_vec()
        );
        assert_eq!(found(&all, &[("user", "bob")]), ["bob*"]);
        assert!(found(&all, &[("user", "an")]).is_empty());
    }

    #[test]
    fn a_prefix_goes_before_an_equally_long_suffix() {
        let all = wildcards(&[&[("user", "*abc")], &[("user", "abc*")]]);
        assert_eq!(found(&all, &[("user", "abcabc")]), ["abc*", "*abc"]);
    }

    #[test]
    fn other_attributes_are_compared_exactly() {
        let all = wildcards(&[&[("tenant", "acme/*"), ("user", "7")], &[("tenant", "acme"), ("user", "7*")]]);
        assert_eq!(found(&all, &[("tenant", "acme/eu"), ("user", "7")]), ["acme/*"]);
        assert_eq!(found(&all, &[("tenant", "acme"), ("user", "77")]), ["acme"]);
        assert!(found(&all, &[("tenant", "acme/eu"), ("user", "77")]).is_empty());
        // Another set of attributes is another scope.
        assert!(found(&all, &[("tenant", "acme/eu")]).is_empty());
    }

    #[test]
    fn changes_replace_and_delete() {
        let all = wildcards(&[&[("user", "a*")]]);
        let id = name(&[("user", "a*")]).encode().unwrap();
        // What is known already, or older, changes nothing.
        assert!(all.with_changes(vec![change(id.clone(), 1, true), change(id.clone(), 1, false)]).is_none());
        let (none, refused) = all.with_changes(vec![change(id.clone(), 2, false)]).unwrap();
        assert!(none.is_empty() && refused == 0);
        assert!(found(&none, &[("user", "ab")]).is_empty());
        // A read of everything that began before a write does not undo it.
        let (read, _) = all.replaced_by(Vec::new(), 0);
        assert_eq!(found(&read, &[("user", "ab")]), ["a*"]);
        assert!(all.replaced_by(Vec::new(), 1).0.is_empty());
    }
}
