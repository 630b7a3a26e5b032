//! What rules and limits are known by, so that their counters are found again when their names change.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// A name, and those it had before, newest first.
pub(super) struct Named<I> {
    pub own: I,
    pub was: Vec<I>,
}

/// Something that names things.
pub(super) trait Name: Clone + Eq + Hash {
    /// Another name than this and than any that somebody writes.
    fn another(&self, number: usize) -> Self;
}

impl Name for Box<str> {
    fn another(&self, number: usize) -> Self {
        // No name has a control character in it.
        format!("{self}\u{1d}{number}").into()
    }
}

/// What something is to be known by, given what is taken; none if that is for later.
type Choice<'c, I> = &'c dyn Fn(&Named<I>, &HashSet<I>) -> Option<I>;

/// What each of these is known by; `held` says it of those that are there already, by the name they have now.
///
/// Who says that it was what something is known by, is that, unless that is still there and says nothing of the kind: so
/// things may change places. Who says nothing and is there keeps what it is known by. Who is not there takes over from
/// whoever had a name that it had before, and is else known by the oldest of its names. No two are known by the same: a
/// newcomer that would be is known by something else.
pub(super) fn assign<I: Name>(all: &[Named<I>], held: &HashMap<I, I>) -> Vec<I> {
    let holders: HashMap<&I, &I> = held.iter().map(|(name, known)| (known, name)).collect();
    let silent: HashSet<&I> =
        all.iter().filter(|named| named.was.is_empty()).map(|named| &named.own).collect();
    let claimed = |named: &Named<I>| {
        let oldest = named.was.last()?;
        holders.get(oldest).filter(|holder| !silent.contains(*holder)).map(|_| oldest.clone())
    };
    let kept = |named: &Named<I>| held.get(&named.own).cloned();
    let mut known: Vec<Option<I>> = vec![None; all.len()];
    let mut taken: HashSet<I> = HashSet::new();
    let mut settle = |choose: Choice<'_, I>| {
        for (named, known) in all.iter().zip(&mut known).filter(|(_, known)| known.is_none()) {
            *known = choose(named, &taken).filter(|choice| !taken.contains(choice));
            taken.extend(known.clone());
        }
    };
    settle(&|named, _| claimed(named));
    settle(&|named, _| kept(named));
    settle(&|named, taken| {
        let inherited = named.was.iter().find_map(|was| held.get(was));
        let wanted = inherited.or(named.was.last()).unwrap_or(&named.own).clone();
        let others = (1..).map(|number| named.own.another(number));
        let mut choices = [wanted, named.own.clone()].into_iter().chain(others);
        choices.find(|choice| !taken.contains(choice))
    });
    known.into_iter().zip(all).map(|(known, named)| known.unwrap_or_else(|| named.own.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(all: &[(&str, &[&str])], held: &[(&str, &str)]) -> Vec<String> {
        let named = |(own, was): &(&str, &[&str])| Named {
            own: Box::from(*own),
            was: was.iter().map(|was| Box::from(*was)).collect(),
        };
        let all: Vec<Named<Box<str>>> = all.iter().map(named).collect();
        let held = held.iter().map(|(name, known)| (Box::from(*name), Box::from(*known))).collect();
        assign(&all, &held).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn at_first_the_oldest_name_counts() {
        assert_eq!(assigned(&[("a", &[]), ("c", &["b", "x"])], &[]), ["a", "x"]);
    }

    #[test]
    fn who_is_there_keeps_what_it_is_known_by() {
        assert_eq!(assigned(&[("b", &[])], &[("b", "a")]), ["a"]);
        assert_eq!(assigned(&[("c", &["b"])], &[("b", "a")]), ["a"]);
    }

    #[test]
    fn things_may_change_places() {
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
    fn a_newcomer_takes_from_nobody() {
        assert_eq!(assigned(&[("a", &[]), ("b", &[])], &[("b", "a")]), ["a\u{1d}1", "a"]);
        assert_eq!(assigned(&[("b", &[]), ("c", &["a"])], &[("b", "a")]), ["a", "c"]);
        assert_eq!(assigned(&[("b", &["a"]), ("c", &["a"])], &[]), ["a", "c"]);
    }
}
