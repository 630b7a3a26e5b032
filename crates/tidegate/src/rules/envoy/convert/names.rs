//! Valid names for native rules.

use std::collections::{HashMap, HashSet};

use tidegate_core::text::truncated;

use crate::rules::NAME_BYTES_MAX;

/// The names of the rules. Most keep their name; only a name that is too long or has invalid characters is
/// replaced.
#[derive(Default)]
pub(super) struct RuleNames {
    assigned: HashMap<String, String>,
    used: HashSet<String>,
}

impl RuleNames {
    /// The native name for the rule with this name.
    pub fn name_for(&mut self, name: &str) -> &str {
        if !self.assigned.contains_key(name) {
            let free = self.unused_name(name);
            self.used.insert(free.clone());
            self.assigned.insert(name.to_owned(), free);
        }
        &self.assigned[name]
    }

    fn unused_name(&self, name: &str) -> String {
        let clean: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let clean = clean.trim();
        if clean.len() <= NAME_BYTES_MAX && !clean.is_empty() && !self.used.contains(clean) {
            return clean.to_owned();
        }
        let numbered = |number: usize| {
            let number = format!("~{number}");
            format!("{}{number}", truncated(clean, NAME_BYTES_MAX - number.len()))
        };
        // At least one of these is unused, because there are more of them than names. Usually it is the first.
        let first = self.used.len() + 1;
        (first..=2 * first).map(numbered).find(|name| !self.used.contains(name)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_what_they_are_where_they_can() {
        let mut names = RuleNames::default();
        assert_eq!(names.name_for("a_b/c"), "a_b/c");
        assert_eq!(names.name_for("a_b/c"), "a_b/c");
        assert_eq!(names.name_for("a\nb"), "a?b");
        assert_eq!(names.name_for("a?b"), "a?b~3");
        assert_eq!(names.name_for(" "), "~4");
        let long = "é".repeat(100);
        let shortened = names.name_for(&long).to_owned();
        assert!(shortened.len() <= NAME_BYTES_MAX && shortened.ends_with("é~5"), "{shortened}");
        assert_ne!(names.name_for(&format!("{long}2")), shortened);
        assert_eq!(names.name_for(&long), shortened);
    }
}
