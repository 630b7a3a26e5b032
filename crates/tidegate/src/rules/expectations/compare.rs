//! Compares an answer with the expectation.

use std::fmt::Write as _;

use tidegate_core::rules::{AnswerKind, KeyStatus, LimitAnswer};
use tidegate_core::text::write_duration;
use tidegate_core::{LimitId, Nanos, Wait};

use super::model::{Expectation, ExpectedRule};
use crate::rules::file::Spanned;
use crate::rules::yaml::printable;
use crate::rules::{Answer, Span};

/// An expectation that was not met.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The position of the expectation.
    pub span: Span,
    /// The name of the field, like `decision`.
    pub field: &'static str,
    pub expected: String,
    pub actual: String,
}

/// All expectations that the answer does not meet.
pub(super) fn mismatches(expected: &Expectation, answer: &Answer) -> Vec<Mismatch> {
    let decider = answer.decider();
    let decision =
        expected.decision.as_ref().map(|value| compare_decision("decision", value, Some(answer.kind)));
    let candidate = expected.candidate.as_ref().map(|value| {
        let worst = answer.candidates().map(|candidate| candidate.kind).max();
        compare_decision("candidate", value, worst)
    });
    let rule = expected.rule.as_ref().map(|value| {
        let actual =
            decider.map_or(ExpectedRule::NoRule, |limit| ExpectedRule::Named(limit.rule.name.clone()));
        mismatch("rule", value, (actual != value.value).then(|| rule_text(&actual)), rule_text(&value.value))
    });
    let limit = expected.limit.as_ref().map(|value| {
        let differs = decider.is_none_or(|limit| *limit.id != value.value);
        let actual = || decider.map_or_else(|| "none".to_owned(), |limit| limit_text(limit.id));
        mismatch("limit", value, differs.then(actual), limit_text(&value.value))
    });
    let remaining = expected.remaining.as_ref().map(|value| {
        let actual = (answer.remaining != value.value || decider.is_none()).then(|| match decider {
            Some(_) => answer.remaining.to_string(),
            None => "no limit".to_owned(),
        });
        mismatch("remaining", value, actual, value.value.to_string())
    });
    let retry_after = expected.retry_after.as_ref().map(|value| {
        let actual = (answer.retry_after != value.value).then(|| wait_text(answer.retry_after));
        mismatch("retry_after", value, actual, wait_text(value.value))
    });
    let reset_after =
        expected.reset_after.as_ref().map(|value| compare_duration("reset_after", value, answer.reset_after));
    let delay = expected.delay.as_ref().map(|value| compare_duration("delay", value, answer.delay));
    let all = [decision, rule, limit, remaining, retry_after, reset_after, delay, candidate];
    all.into_iter().flatten().flatten().collect()
}

/// The answer in one sentence.
pub(super) fn describe(answer: &Answer) -> String {
    let mut text = answer.kind.as_str().to_owned();
    // Writing to a string does not fail.
    match answer.decider() {
        Some(decider) => {
            let _ = write!(text, " by {}", describe_limit(&decider));
            match decider.key_status {
                KeyStatus::Present => write!(text, ", {} remaining", answer.remaining),
                KeyStatus::Missing => write!(text, ", because a part of its key is missing"),
                KeyStatus::Blocked => write!(text, ", because the key is blocked"),
            }
        }
        None => write!(text, ", because no limit applies"),
    }
    .unwrap_or_default();
    if answer.retry_after > Wait::NONE {
        let _ = write!(text, ", retry after {}", wait_text(answer.retry_after));
    }
    if answer.delay > Nanos::ZERO {
        let _ = write!(text, ", delay {}", duration_text(answer.delay));
    }
    text
}

/// The limit that decided, as in `rule login, limit per-ip`.
fn describe_limit(limit: &LimitAnswer<'_>) -> String {
    format!("rule {}, limit {}", printable(&limit.rule.name), limit_text(limit.id))
}

fn compare_decision(
    field: &'static str,
    value: &Spanned<AnswerKind>,
    actual: Option<AnswerKind>,
) -> Option<Mismatch> {
    let differs = actual != Some(value.value);
    let actual = || actual.map_or("none", AnswerKind::as_str).to_owned();
    mismatch(field, value, differs.then(actual), value.value.as_str().to_owned())
}

fn compare_duration(field: &'static str, value: &Spanned<Nanos>, actual: Nanos) -> Option<Mismatch> {
    mismatch(field, value, (actual != value.value).then(|| duration_text(actual)), duration_text(value.value))
}

/// A mismatch, if the values differ.
fn mismatch<T>(
    field: &'static str,
    value: &Spanned<T>,
    actual: Option<String>,
    expected: String,
) -> Option<Mismatch> {
    actual.map(|actual| Mismatch { span: value.span, field, expected, actual })
}

fn rule_text(name: &ExpectedRule) -> String {
    match name {
        ExpectedRule::Named(name) => printable(name),
        ExpectedRule::NoRule => "none".to_owned(),
    }
}

fn limit_text(id: &LimitId) -> String {
    printable(&id.to_string())
}

fn wait_text(wait: Wait) -> String {
    wait.span().map_or_else(|| "never".to_owned(), duration_text)
}

/// As it would be written in a file, or in another form if it is too long for that.
fn duration_text(span: Nanos) -> String {
    if span == Nanos::ZERO {
        return "0s".to_owned();
    }
    u64::try_from(span.get()).map_or_else(|_| span.to_string(), write_duration)
}
