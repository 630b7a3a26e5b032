//! What one file says, of whichever kind it is, and where it says it.

use tidegate_core::rules::{Apply, Lookup, Pool, Rule};

use super::Span;

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned<T> {
    pub value: T,
    pub span: Span,
}

/// What one file says. Files of one domain are joined by `load`.
#[derive(Debug)]
pub(crate) struct RulesFile {
    pub domain: Spanned<Box<str>>,
    /// If the file says it.
    pub apply: Option<Spanned<Apply>>,
    pub lookup: Lookup,
    pub pools: Vec<Spanned<Pool>>,
    pub rules: Vec<FileRule>,
}

/// A rule and where its parts stand.
#[derive(Debug)]
pub(crate) struct FileRule {
    pub rule: Rule,
    pub spans: RuleSpans,
}

/// Where the parts of a rule stand; of lists, one for each of the rule's, or none where nobody will ask.
#[derive(Clone, Debug)]
pub(crate) struct RuleSpans {
    /// The whole rule.
    pub rule: Span,
    pub name: Span,
    pub was: Vec<Span>,
    pub conditions: Vec<Span>,
    /// Those of all plans one after the other, the default's last.
    pub limits: Vec<LimitSpans>,
    pub candidate: Option<LimitSpans>,
    pub replaces: Vec<Span>,
    /// None if the rule does not say it.
    pub on_store_failure: Option<Span>,
}

/// Where the parts of a limit stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitSpans {
    /// The whole limit.
    pub limit: Span,
    pub key: Span,
    pub cost: Span,
    pub action: Span,
}

impl RuleSpans {
    /// Of a rule of which nothing but the whole has a place.
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
