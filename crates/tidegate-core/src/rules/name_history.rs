//! What rules and limits are known by, so that their counters are found again when their names change.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// A name, and those it had before, newest first.
pub(super) struct NameHistory<I> {
    pub current: I,
    pub former: Vec<I>,
}

/// Something that names things.
pub(super) trait CounterName: Clone + Eq + Hash {
    /// Another name than this and than any that somebody writes.
    fn with_suffix(&self, number: usize) -> Self;
}

impl CounterName for Box<str> {
    fn with_suffix(&self, number: usize) -> Self {
        // No name has a control character in it.
        format!("{self}\u{1d}{number}").into()
    }
}

/// What something is to be known by, given what is taken; none if that is for later.
type ChooseName<'c, I> = &'c dyn Fn(&NameHistory<I>, &HashSet<I>) -> Option<I>;

/// What each of these is known by; `held` says it of those that are there already, by the name they have now.
///
/// Who says that it was what something is known by, is that, unless that is still there and says nothing of the kind: so
/// things may change places. Who says nothing and is there keeps what it is known by. Who is not there takes over from
/// whoever had a name that it had before, and is else known by the oldest of its names. No two are known by the same: a
/// newcomer that would be is known by something else.
pub(super) fn assign_identities<I: CounterName>(all: &[NameHistory<I>], held: &HashMap<I, I>) -> Vec<I> {
    let holders: HashMap<&I, &I> = held.iter().map(|(name, known)| (known, name)).collect();
    let silent: HashSet<&I> =
        all.iter().filter(|named| named.former.is_empty()).map(|named| &named.current).collect();
    let claimed = |named: &NameHistory<I>| {
        let oldest = named.former.last()?;
        holders.get(oldest).filter(|holder| !silent.contains(*holder)).map(|_| oldest.clone())
    };
    let kept = |named: &NameHistory<I>| held.get(&named.current).cloned();
    let mut known: Vec<Option<I>> = vec![None; all.len()];
    let mut taken: HashSet<I> = HashSet::new();
    let mut settle = |choose: ChooseName<'_, I>| {
        for (named, known) in all.iter().zip(&mut known).filter(|(_, known)| known.is_none()) {
            *known = choose(named, &taken).filter(|choice| !taken.contains(choice));
            taken.extend(known.clone());
        }
    };
    settle(&|named, _| claimed(named));
    settle(&|named, _| kept(named));
    settle(&|named, taken| {
        let inherited = named.former.iter().find_map(|was| held.get(was));
        let wanted = inherited.or(named.former.last()).unwrap_or(&named.current).clone();
        let others = (1..).map(|number| named.current.with_suffix(number));
        let mut choices = [wanted, named.current.clone()].into_iter().chain(others);
        choices.find(|choice| !taken.contains(choice))
    });
    known.into_iter().zip(all).map(|(known, named)| known.unwrap_or_else(|| named.current.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(all: &[(&str, &[&str])], held: &[(&str, &str)]) -> Vec<String> {
        let named = |(own, was): &(&str, &[&str])| NameHistory {
            current: Box::from(*own),
            former: was.iter().map(|was| Box::from(*was)).collect(),
        };
        let all: Vec<NameHistory<Box<str>>> = all.iter().map(named).collect();
        let held = held.iter().map(|(name, known)| (Box::from(*name), Box::from(*known))).collect();
        assign_identities(&all, &held).iter().map(ToString::to_string).collect()
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
        let held = [("1", "1"), ("2", "2"), ("3", "3")];
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["1"])], &held), ["2", "1"]);
        assert_eq!(assigned(&[("n", &[]), ("2", &["1"]), ("3", &["2"])], &held), ["n", "1", "2"]);
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["3"])], &held), ["2", "3"]);
        // One of that name was there and is gone.
        assert_eq!(assigned(&[("2", &["1"])], &held), ["1"]);
        // The same file again.
        assert_eq!(assigned(&[("1", &["2"]), ("2", &["1"])], &[("1", "2"), ("2", "1")]), ["2", "1"]);
    }

    #[test]
    fn a_new_name_takes_no_existing_identity() {
        assert_eq!(assigned(&[("a", &[]), ("b", &[])], &[("b", "a")]), ["a\u{1d}1", "a"]);
        assert_eq!(assigned(&[("b", &[]), ("c", &["a"])], &[("b", "a")]), ["a", "c"]);
        assert_eq!(assigned(&[("b", &["a"]), ("c", &["a"])], &[]), ["a", "c"]);
    }
}
