//! The content of one rules file, of either language, with positions.

use tidegate_core::algorithm::CountDenied;
use tidegate_core::rules::{Apply, Lookup, Pool, Rule};

use super::Span;

/// A value and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

/// The content of one file. `join` merges the files of a domain.
#[derive(Debug)]
pub(crate) struct RulesFile {
    pub domain: Spanned<Box<str>>,
    /// None if the file does not set it.
    pub apply: Option<Spanned<Apply>>,
    pub lookup: Lookup,
    /// Which denied requests the limits that requests carry count.
    pub count_denied: CountDenied,
    pub pools: Vec<Spanned<Pool>>,
    pub rules: Vec<FileRule>,
    /// For each rule of a file for envoyproxy/ratelimit, its name in `replaces`, and what it replaces. Empty for native
    /// rules.
    pub limit_names: Vec<LimitNames>,
}

/// The name of a rule in `replaces`, and the names that it replaces.
#[derive(Debug, Default)]
pub(crate) struct LimitNames {
    pub name: Option<Box<str>>,
    pub replaces: Vec<Spanned<Box<str>>>,
}

/// A rule and the positions of its parts.
#[derive(Debug)]
pub(crate) struct FileRule {
    pub rule: Rule,
    pub spans: RuleSpans,
}

/// The positions of the parts of a rule. A list has one for each item, or is empty where no message needs
/// them.
#[derive(Clone, Debug)]
pub(crate) struct RuleSpans {
    /// The whole rule.
    pub rule: Span,
    pub name: Span,
    pub was: Vec<Span>,
    pub conditions: Vec<Span>,
    /// The limits of all plans in order, those of the default last.
    pub limits: Vec<LimitSpans>,
    pub candidate: Option<LimitSpans>,
    pub replaces: Vec<Span>,
    /// None if the rule does not set it.
    pub on_store_failure: Option<Span>,
}

/// The positions of the parts of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSpans {
    /// The whole limit.
    pub limit: Span,
    pub key: Span,
    pub cost: Span,
    pub action: Span,
}

impl RuleSpans {
    /// For a rule of which only the whole has a position.
    pub fn whole(rule: Span) -> Self {
        Self {
            rule,
            name: rule,
            was: Vec::new(),
            conditions: Vec::new(),
            limits: Vec::new(),
            candidate: None,
            replaces: Vec::new(),
            on_store_failure: None,
        }
    }
}
