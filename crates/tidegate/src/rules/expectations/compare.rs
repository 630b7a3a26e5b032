//! An answer, held against what was expected.

use std::fmt::Write as _;

use tidegate_core::rules::{KeyStatus, AnswerKind, LimitAnswer, LimitId};
use tidegate_core::text::write_duration;
use tidegate_core::{Nanos, Wait};

use super::super::file::Spanned;
use super::super::yaml::printable;
use super::super::{Answer, Span};
use super::model::{Expectation, ExpectedRule};

/// Something that did not come as it was expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Where the expectation stands.
    pub span: Span,
    /// As in `decision`.
    pub field: &'static str,
    pub expected: String,
    pub actual: String,
}

/// All that did not come as it was expected.
pub(super) fn mismatches(expected: &Expectation, answer: &Answer) -> Vec<Mismatch> {
    let decider = answer.decider();
    let decision = expected.decision.as_ref().map(|wanted| compare_decision("decision", wanted, Some(answer.kind)));
    let candidate = expected.candidate.as_ref().map(|wanted| {
        let worst = answer.candidates().map(|candidate| candidate.kind).max();
        compare_decision("candidate", wanted, worst)
    });
    let rule = expected.rule.as_ref().map(|wanted| {
        let came = decider.map_or(ExpectedRule::NoRule, |limit| ExpectedRule::Named(limit.rule.name.clone()));
        mismatch("rule", wanted, (came != wanted.value).then(|| rule_text(&came)), rule_text(&wanted.value))
    });
    let limit = expected.limit.as_ref().map(|wanted| {
        let differs = decider.is_none_or(|limit| *limit.id != wanted.value);
        let came = || decider.map_or_else(|| "none".to_owned(), |limit| limit_text(limit.id));
        mismatch("limit", wanted, differs.then(came), limit_text(&wanted.value))
    });
    let remaining = expected.remaining.as_ref().map(|wanted| {
        let came = (answer.remaining != wanted.value || decider.is_none()).then(|| match decider {
            Some(_) => answer.remaining.to_string(),
            None => "no limit".to_owned(),
        });
        mismatch("remaining", wanted, came, wanted.value.to_string())
    });
    let retry_after = expected.retry_after.as_ref().map(|wanted| {
        let came = (answer.retry_after != wanted.value).then(|| wait_text(answer.retry_after));
        mismatch("retry_after", wanted, came, wait_text(wanted.value))
    });
    let reset_after =
        expected.reset_after.as_ref().map(|wanted| compare_duration("reset_after", wanted, answer.reset_after));
    let delay = expected.delay.as_ref().map(|wanted| compare_duration("delay", wanted, answer.delay));
    let all = [decision, rule, limit, remaining, retry_after, reset_after, delay, candidate];
    all.into_iter().flatten().flatten().collect()
}

/// What came, in a sentence.
pub(super) fn describe(answer: &Answer) -> String {
    let mut said = answer.kind.as_str().to_owned();
    // Writing to a string does not fail.
    match answer.decider() {
        Some(decider) => {
            let _ = write!(said, " by {}", describe_limit(&decider));
            match decider.key_status {
                KeyStatus::Present => write!(said, ", {} remaining", answer.remaining),
                KeyStatus::Missing => write!(said, ", for a part of its key is missing"),
            }
        }
        None => write!(said, ", for no limit applies"),
    }
    .unwrap_or_default();
    if answer.retry_after > Wait::NONE {
        let _ = write!(said, ", retry after {}", wait_text(answer.retry_after));
    }
    if answer.delay > Nanos::ZERO {
        let _ = write!(said, ", delay {}", duration_text(answer.delay));
    }
    said
}

/// The limit that decided, as in `rule login, limit per-ip`.
fn describe_limit(limit: &LimitAnswer<'_>) -> String {
    format!("rule {}, limit {}", printable(&limit.rule.name), limit_text(limit.id))
}

fn compare_decision(field: &'static str, wanted: &Spanned<AnswerKind>, came: Option<AnswerKind>) -> Option<Mismatch> {
    let differs = came != Some(wanted.value);
    let came = || came.map_or("none", AnswerKind::as_str).to_owned();
    mismatch(field, wanted, differs.then(came), wanted.value.as_str().to_owned())
}

fn compare_duration(field: &'static str, wanted: &Spanned<Nanos>, came: Nanos) -> Option<Mismatch> {
    mismatch(field, wanted, (came != wanted.value).then(|| duration_text(came)), duration_text(wanted.value))
}

/// A mismatch, if something else came.
fn mismatch<T>(
    field: &'static str,
    wanted: &Spanned<T>,
    came: Option<String>,
    expected: String,
) -> Option<Mismatch> {
    came.map(|came| Mismatch { span: wanted.span, field, expected, actual: came })
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

/// As it would be written in a file; what is too long for that, as it is shown elsewhere.
fn duration_text(span: Nanos) -> String {
    if span == Nanos::ZERO {
        return "0s".to_owned();
    }
    u64::try_from(span.get()).map_or_else(|_| span.to_string(), write_duration)
}
