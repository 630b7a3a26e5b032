//! Tests, as they were written.

use tidegate_core::rules::{Fate, Level, LimitId};
use tidegate_core::{Nanos, Timestamp, Wait};

use super::super::file::Spanned;
use super::super::{OwnedRequest, Span};

/// Some steps, one after the other.
#[derive(Debug)]
pub(super) struct Test {
    pub name: Box<str>,
    pub span: Span,
    /// Left out where the rules have just one.
    pub domain: Option<Spanned<Box<str>>>,
    /// When the time of its steps begins.
    pub start: Timestamp,
    pub steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub span: Span,
    /// Since the start of the test.
    pub at: Nanos,
    pub does: Does,
}

#[derive(Debug)]
pub(super) enum Does {
    Ask(Box<Question>),
    Signals(Vec<(Spanned<Box<str>>, Level)>),
}

/// A request, how often it is made, and what each answer has to be.
#[derive(Debug)]
pub(super) struct Question {
    pub request: OwnedRequest,
    pub times: u64,
    pub expected: Expected,
}

/// What an answer has to be, as far as the file says.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub decision: Option<Spanned<Fate>>,
    pub rule: Option<Spanned<Name>>,
    pub limit: Option<Spanned<LimitId>>,
    pub remaining: Option<Spanned<u64>>,
    pub retry_after: Option<Spanned<Wait>>,
    pub reset_after: Option<Spanned<Nanos>>,
    pub delay: Option<Spanned<Nanos>>,
    pub candidate: Option<Spanned<Fate>>,
}

/// The name of a rule, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Is(Box<str>),
    None,
}

/// All that a test can meet with, mildest first: its store always answers.
pub(super) const FATES: [Fate; 7] = [
    Fate::Allowed,
    Fate::ShadowDenied,
    Fate::OverQuota,
    Fate::Soft,
    Fate::Delayed,
    Fate::ShadowBanned,
    Fate::Denied,
];

impl Expected {
    pub fn is_anything(&self) -> bool {
        let Self { decision, rule, limit, remaining, retry_after, reset_after, delay, candidate } = self;
        let none = decision.is_none() && rule.is_none() && limit.is_none() && remaining.is_none();
        none && retry_after.is_none() && reset_after.is_none() && delay.is_none() && candidate.is_none()
    }
}
