//! Warns about requests of domains without rules, once per name: a misspelled domain limits nothing.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use tidegate::rules::Ruleset;
use tidegate_core::text::did_you_mean;

use crate::text;

/// Clients choose the names, so the log names only this many of them.
pub const NAMES_MAX: usize = 100;
/// The maximum of characters of a name in the log. Longer names count as one.
const NAME_CHARS_MAX: usize = 64;
/// The maximum of known domains in a hint.
const HINT_DOMAINS_MAX: usize = 5;

/// The names that the log has.
#[derive(Debug, Default)]
pub struct UnknownDomains {
    names: RwLock<HashSet<String>>,
}

impl UnknownDomains {
    /// Writes a line, unless the log has one for this name. `what` says what happens to its requests.
    #[cold]
    pub fn warn(&self, domain: &str, rules: &Ruleset, what: &str) {
        if self.names.read().unwrap_or_else(PoisonError::into_inner).len() >= NAMES_MAX {
            return;
        }
        let name = text::printable(domain.as_bytes(), NAME_CHARS_MAX);
        if self.names.read().unwrap_or_else(PoisonError::into_inner).contains(&name) {
            return;
        }
        let is_last = {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            if names.len() >= NAMES_MAX || !names.insert(name.clone()) {
                return;
            }
            names.len() == NAMES_MAX
        };
        tracing::warn!(
            "requests of the domain `{name}` {what}: it has no rules (hint: {})",
            hint(domain, rules)
        );
        if is_last {
            tracing::warn!(
                "further domains without rules are not logged; tidegate_unknown_domain_total counts them"
            );
        }
    }
}

fn hint(domain: &str, rules: &Ruleset) -> String {
    let mut known: Vec<&str> = rules.domains().map(|domain| domain.name()).collect();
    known.sort_unstable();
    did_you_mean(domain, &known).unwrap_or_else(|| match known.as_slice() {
        [] => "there are no rules".to_owned(),
        known => {
            let (more, known) = (known.len() > HINT_DOMAINS_MAX, &known[..known.len().min(HINT_DOMAINS_MAX)]);
            format!("the domains are: {}{}", known.join(", "), if more { ", ..." } else { "" })
        }
    })
}
