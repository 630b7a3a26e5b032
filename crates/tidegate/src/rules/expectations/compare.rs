//! An answer, held against what was expected.

use std::fmt::Write as _;

use tidegate_core::rules::{Asked, Fate, LimitAnswer, LimitId};
use tidegate_core::text::write_duration;
use tidegate_core::{Nanos, Wait};

use super::super::file::Spanned;
use super::super::yaml::shown;
use super::super::{Answer, Span};
use super::model::{Expected, Name};

/// Something that did not come as it was expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// Where the expectation stands.
    pub span: Span,
    /// As in `decision`.
    pub field: &'static str,
    pub expected: String,
    pub came: String,
}

/// All that did not come as it was expected.
pub(super) fn mismatches(expected: &Expected, answer: &Answer) -> Vec<Mismatch> {
    let decider = answer.decider();
    let decision = expected.decision.as_ref().map(|wanted| of_fate("decision", wanted, Some(answer.fate)));
    let candidate = expected.candidate.as_ref().map(|wanted| {
        let worst = answer.candidates().map(|candidate| candidate.fate).max();
        of_fate("candidate", wanted, worst)
    });
    let rule = expected.rule.as_ref().map(|wanted| {
        let came = decider.map_or(Name::None, |limit| Name::Is(limit.rule.name.clone()));
        differing("rule", wanted, (came != wanted.value).then(|| name(&came)), name(&wanted.value))
    });
    let limit = expected.limit.as_ref().map(|wanted| {
        let differs = decider.is_none_or(|limit| *limit.id != wanted.value);
        let came = || decider.map_or_else(|| "none".to_owned(), |limit| id(limit.id));
        differing("limit", wanted, differs.then(came), id(&wanted.value))
    });
    let remaining = expected.remaining.as_ref().map(|wanted| {
        let came = (answer.remaining != wanted.value || decider.is_none()).then(|| match decider {
            Some(_) => answer.remaining.to_string(),
            None => "no limit".to_owned(),
        });
        differing("remaining", wanted, came, wanted.value.to_string())
    });
    let retry_after = expected.retry_after.as_ref().map(|wanted| {
        let came = (answer.retry_after != wanted.value).then(|| wait(answer.retry_after));
        differing("retry_after", wanted, came, wait(wanted.value))
    });
    let reset_after =
        expected.reset_after.as_ref().map(|wanted| of_span("reset_after", wanted, answer.reset_after));
    let delay = expected.delay.as_ref().map(|wanted| of_span("delay", wanted, answer.delay));
    let all = [decision, rule, limit, remaining, retry_after, reset_after, delay, candidate];
    all.into_iter().flatten().flatten().collect()
}

/// What came, in a sentence.
pub(super) fn said(answer: &Answer) -> String {
    let mut said = answer.fate.as_str().to_owned();
    // Writing to a string does not fail.
    match answer.decider() {
        Some(decider) => {
            let _ = write!(said, " by {}", place(&decider));
            match decider.asked {
                Asked::Yes => write!(said, ", {} remaining", answer.remaining),
                Asked::KeyMissing => write!(said, ", for a part of its key is missing"),
            }
        }
        None => write!(said, ", for no limit applies"),
    }
    .unwrap_or_default();
    if answer.retry_after > Wait::NONE {
        let _ = write!(said, ", retry after {}", wait(answer.retry_after));
    }
    if answer.delay > Nanos::ZERO {
        let _ = write!(said, ", delay {}", span(answer.delay));
    }
    said
}

/// The limit that decided, as in `rule login, limit per-ip`.
fn place(limit: &LimitAnswer<'_>) -> String {
    format!("rule {}, limit {}", shown(&limit.rule.name), id(limit.id))
}

fn of_fate(field: &'static str, wanted: &Spanned<Fate>, came: Option<Fate>) -> Option<Mismatch> {
    let differs = came != Some(wanted.value);
    let came = || came.map_or("none", Fate::as_str).to_owned();
    differing(field, wanted, differs.then(came), wanted.value.as_str().to_owned())
}

fn of_span(field: &'static str, wanted: &Spanned<Nanos>, came: Nanos) -> Option<Mismatch> {
    differing(field, wanted, (came != wanted.value).then(|| span(came)), span(wanted.value))
}

/// A mismatch, if something else came.
fn differing<T>(
    field: &'static str,
    wanted: &Spanned<T>,
    came: Option<String>,
    expected: String,
) -> Option<Mismatch> {
    came.map(|came| Mismatch { span: wanted.span, field, expected, came })
}

fn name(name: &Name) -> String {
    match name {
        Name::Is(name) => shown(name),
        Name::None => "none".to_owned(),
    }
}

fn id(id: &LimitId) -> String {
    shown(&id.to_string())
}

fn wait(wait: Wait) -> String {
    wait.span().map_or_else(|| "never".to_owned(), span)
}

/// As it would be written in a file; what is too long for that, as it is shown elsewhere.
fn span(span: Nanos) -> String {
    if span == Nanos::ZERO {
        return "0s".to_owned();
    }
    u64::try_from(span.get()).map_or_else(|_| span.to_string(), write_duration)
}
