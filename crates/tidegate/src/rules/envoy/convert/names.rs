//! Names that native rules may have.

use std::collections::{HashMap, HashSet};

use tidegate_core::text::prefix;

use super::super::super::NAME_BYTES_MAX;

/// What each rule is called. Mostly that is what it was called before; only names that are too long, or have
/// characters that names do not have, become others.
#[derive(Default)]
pub(super) struct Names {
    given: HashMap<String, String>,
    taken: HashSet<String>,
}

impl Names {
    /// The name of the rule that was called so.
    pub fn of(&mut self, name: &str) -> &str {
        if !self.given.contains_key(name) {
            let free = self.free(name);
            self.taken.insert(free.clone());
            self.given.insert(name.to_owned(), free);
        }
        &self.given[name]
    }

    fn free(&self, name: &str) -> String {
        let clean: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let clean = clean.trim();
        if clean.len() <= NAME_BYTES_MAX && !clean.is_empty() && !self.taken.contains(clean) {
            return clean.to_owned();
        }
        let numbered = |number: usize| {
            let number = format!("~{number}");
            format!("{}{number}", prefix(clean, NAME_BYTES_MAX - number.len()))
        };
        // One of more numbers than there are names is free. Most often it is this one.
        let first = self.taken.len() + 1;
        (first..=2 * first).map(numbered).find(|name| !self.taken.contains(name)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_what_they_are_where_they_can() {
        let mut names = Names::default();
        assert_eq!(names.of("a_b/c"), "a_b/c");
        assert_eq!(names.of("a_b/c"), "a_b/c");
        assert_eq!(names.of("a\nb"), "a?b");
        assert_eq!(names.of("a?b"), "a?b~3");
        assert_eq!(names.of(" "), "~4");
        let long = "é".repeat(100);
        let shortened = names.of(&long).to_owned();
        assert!(shortened.len() <= NAME_BYTES_MAX && shortened.ends_with("é~5"), "{shortened}");
        assert_ne!(names.of(&format!("{long}2")), shortened);
        assert_eq!(names.of(&long), shortened);
    }
}
