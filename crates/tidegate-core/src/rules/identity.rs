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

/// What each of these is known by; `held` says it of those that are there already, by the name they have now.
///
/// Who is there keeps what it is known by. Who is not takes over from whoever had a name that it had before, and is else
/// known by the oldest of its names. No two are known by the same: a newcomer that would be is known by something else.
pub(super) fn assign<I: Name>(all: &[Named<I>], held: &HashMap<I, I>) -> Vec<I> {
    let mut taken: HashSet<I> = all.iter().filter_map(|named| held.get(&named.own).cloned()).collect();
    let known_by = |named: &Named<I>| {
        if let Some(known) = held.get(&named.own) {
            return known.clone();
        }
        let inherited = named.was.iter().find_map(|was| held.get(was));
        let wanted = inherited.or(named.was.last()).unwrap_or(&named.own);
        let others = std::iter::once(named.own.clone()).chain((1..).map(|number| named.own.another(number)));
        let mut choices = std::iter::once(wanted.clone()).chain(others);
        let free = choices.find(|known| !taken.contains(known)).unwrap_or_else(|| named.own.clone());
        taken.insert(free.clone());
        free
    };
    all.iter().map(known_by).collect()
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
    fn a_newcomer_takes_from_nobody() {
        assert_eq!(assigned(&[("a", &[]), ("b", &[])], &[("b", "a")]), ["a\u{1d}1", "a"]);
        assert_eq!(assigned(&[("b", &[]), ("c", &["a"])], &[("b", "a")]), ["a", "c"]);
        assert_eq!(assigned(&[("b", &["a"]), ("c", &["a"])], &[]), ["a", "c"]);
    }
}
