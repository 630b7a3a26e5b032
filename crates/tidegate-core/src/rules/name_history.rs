//! Assigns identities to rules and limits, so that their counters are found again when names change.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// A name with the former names, newest first.
pub(super) struct NameHistory<I> {
    pub current: I,
    pub former: Vec<I>,
}

/// A name that can be an identity.
pub(super) trait CounterName: Clone + Eq + Hash {
    /// A name that differs from this one and from every name that people write.
    fn with_suffix(&self, number: usize) -> Self;
}

impl CounterName for Box<str> {
    fn with_suffix(&self, number: usize) -> Self {
        // Names contain no control characters.
        format!("{self}\u{1d}{number}").into()
    }
}

/// Assigns an identity to each item. `existing` has the identities of the items that exist already, by current name.
///
/// 1. An item with former names takes the identity that equals its oldest former name, if an existing item holds that
///    identity. It does not if that item is still listed and has no former names itself. So items can swap identities.
/// 2. Otherwise, an item that exists already keeps its identity.
/// 3. Otherwise, an item takes the identity of the existing item with one of its former names. If there is none, its
///    identity is its oldest name.
///
/// No two items have the same identity. A new item whose identity is taken gets its own name or, if that is taken too,
/// a name with a suffix.
pub(super) fn assign_identities<I: CounterName>(
    items: &[NameHistory<I>],
    existing: &HashMap<I, I>,
) -> Vec<I> {
    let names_by_identity: HashMap<&I, &I> =
        existing.iter().map(|(name, identity)| (identity, name)).collect();
    let never_renamed: HashSet<&I> =
        items.iter().filter(|item| item.former.is_empty()).map(|item| &item.current).collect();
    let mut identities: Vec<Option<I>> = vec![None; items.len()];
    let mut taken: HashSet<I> = HashSet::new();
    let mut assign = |choose: ChooseIdentity<'_, I>| {
        for (item, identity) in items.iter().zip(&mut identities).filter(|(_, identity)| identity.is_none()) {
            *identity = choose(item, &taken).filter(|choice| !taken.contains(choice));
            taken.extend(identity.clone());
        }
    };
    assign(&|item, _| {
        let oldest = item.former.last()?;
        let holder = names_by_identity.get(oldest)?;
        (!never_renamed.contains(holder)).then(|| oldest.clone())
    });
    assign(&|item, _| existing.get(&item.current).cloned());
    assign(&|item, taken| {
        let inherited = item.former.iter().find_map(|former| existing.get(former));
        let preferred = inherited.or(item.former.last()).unwrap_or(&item.current).clone();
        let suffixed = (1..).map(|number| item.current.with_suffix(number));
        let mut choices = [preferred, item.current.clone()].into_iter().chain(suffixed);
        choices.find(|choice| !taken.contains(choice))
    });
    let identities = identities.into_iter().zip(items);
    identities.map(|(identity, item)| identity.unwrap_or_else(|| item.current.clone())).collect()
}

/// Chooses the identity of an item, given the identities that are taken. `None` leaves the item to the next round.
type ChooseIdentity<'c, I> = &'c dyn Fn(&NameHistory<I>, &HashSet<I>) -> Option<I>;

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(items: &[(&str, &[&str])], existing: &[(&str, &str)]) -> Vec<String> {
        let history = |(name, former): &(&str, &[&str])| NameHistory {
            current: Box::from(*name),
            former: former.iter().map(|former| Box::from(*former)).collect(),
        };
        let items: Vec<NameHistory<Box<str>>> = items.iter().map(history).collect();
        let existing =
            existing.iter().map(|(name, identity)| (Box::from(*name), Box::from(*identity))).collect();
        assign_identities(&items, &existing).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_history_the_oldest_name_is_the_identity() {
        assert_eq!(assigned(&[("a", &[]), ("c", &["b", "x"])], &[]), ["a", "x"]);
    }

    #[test]
    fn an_existing_name_keeps_its_identity() {
        assert_eq!(assigned(&[("b", &[])], &[("b", "a")]), ["a"]);
        assert_eq!(assigned(&[("c", &["b"])], &[("b", "a")]), ["a"]);
    }

    #[test]
    fn names_can_be_swapped() {
        let existing = [("1", "1"), ("2", "2"), ("3", "3")];
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["1"])], &existing), ["2", "1"]);
        assert_eq!(assigned(&[("n", &[]), ("2", &["1"]), ("3", &["2"])], &existing), ["n", "1", "2"]);
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["3"])], &existing), ["2", "3"]);
        // The item with that name is gone.
        assert_eq!(assigned(&[("2", &["1"])], &existing), ["1"]);
        // The same file is loaded again.
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["1"])], &[("1", "2"), ("2", "1")]), ["2", "1"]);
    }

    #[test]
    fn a_new_name_takes_no_existing_identity() {
        assert_eq!(assigned(&[("a", &[]), ("b", &[])], &[("b", "a")]), ["a\u{1d}1", "a"]);
        assert_eq!(assigned(&[("b", &[]), ("c", &["a"])], &[("b", "a")]), ["a", "c"]);
        assert_eq!(assigned(&[("b", &["a"]), ("c", &["a"])], &[]), ["a", "c"]);
    }
}
