//! Tests, as written in a file.

use tidegate_core::rules::{AnswerKind, Level};
use tidegate_core::{LimitId, Nanos, Timestamp, Wait};

use crate::rules::file::Spanned;
use crate::rules::{OwnedRequest, Span};

/// A test: some steps in order.
#[derive(Debug)]
pub(super) struct RuleTest {
    pub name: Box<str>,
    pub span: Span,
    /// May be left out if the rules have only one domain.
    pub domain: Option<Spanned<Box<str>>>,
    /// When the time of its steps starts.
    pub start: Timestamp,
    pub steps: Vec<TestStep>,
}

#[derive(Debug)]
pub(super) struct TestStep {
    pub span: Span,
    /// Since the start of the test.
    pub at: Nanos,
    pub action: StepAction,
}

#[derive(Debug)]
pub(super) enum StepAction {
    Request(Box<StepRequest>),
    Signals(Vec<(Spanned<Box<str>>, Level)>),
}

/// A request, how often it is made, and the expectation for each answer.
#[derive(Debug)]
pub(super) struct StepRequest {
    pub request: OwnedRequest,
    pub times: u64,
    pub expected: Expectation,
}

/// The expected fields of an answer. Fields that are not set are not compared.
#[derive(Debug, Default)]
pub(super) struct Expectation {
    pub decision: Option<Spanned<AnswerKind>>,
    pub rule: Option<Spanned<ExpectedRule>>,
    pub limit: Option<Spanned<LimitId>>,
    pub remaining: Option<Spanned<u64>>,
    pub retry_after: Option<Spanned<Wait>>,
    pub reset_after: Option<Spanned<Nanos>>,
    pub delay: Option<Spanned<Nanos>>,
    pub candidate: Option<Spanned<AnswerKind>>,
}

/// The name of a rule, or that no rule decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedRule {
    Named(Box<str>),
    NoRule,
}

/// All decisions that a test can get, mildest first. Its store always answers.
pub(super) const DECISIONS: [AnswerKind; 7] = [
    AnswerKind::Allowed,
    AnswerKind::ShadowDenied,
    AnswerKind::OverQuota,
    AnswerKind::Soft,
    AnswerKind::Delayed,
    AnswerKind::ShadowBanned,
    AnswerKind::Denied,
];

impl Expectation {
    pub fn is_empty(&self) -> bool {
        let Self { decision, rule, limit, remaining, retry_after, reset_after, delay, candidate } = self;
        let none = decision.is_none() && rule.is_none() && limit.is_none() && remaining.is_none();
        none && retry_after.is_none() && reset_after.is_none() && delay.is_none() && candidate.is_none()
    }
}
