//! What a decision means for a request.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::headers::{HeaderEnds, LimitHeader};
use tidegate_core::problem::ProblemKind;
use tidegate_core::{AnswerKind, Nanos, Wait};

use super::RequestHead;
use super::slots::Slot;

/// What the limits say about a request. Hooks get it, and a request or response that is not simply allowed has it among
/// its extensions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestAnswer {
    /// What happens to the request.
    pub kind: AnswerKind,
    /// Why it does not pass. None if it does.
    pub problem: Option<ProblemKind>,
    /// The least that any limit still admits.
    pub remaining: u64,
    /// The wait after which the request would pass. [`Wait::NONE`] if it passes.
    pub retry_after: Wait,
    /// How long the request was held.
    pub waited: Nanos,
    /// Whether a limit was decided without the shared store, because the store did not answer.
    pub degraded: bool,
    /// Why it does not pass, for people. Empty if it does.
    pub detail: Box<str>,
    /// The limits that deny it, as they are named in headers.
    pub violated_policies: Vec<Box<str>>,
}

/// A decided request.
#[derive(Debug)]
pub struct Decided {
    /// None if the request simply passes. Boxed, because a decision is moved several times.
    pub(super) answer: Option<Box<RequestAnswer>>,
    pub(super) headers: HeaderLines,
    pub(super) slot: Option<Slot>,
}

/// A decision that is already made, or its future.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub enum Deciding {
    /// It is made.
    Now(Decided),
    /// The request waits, or the store answers later.
    Later(Pin<Box<dyn Future<Output = Decided> + Send>>),
}

/// What decides requests: [`ByLimits`](super::ByLimits), or rules with [`ByRules`](super::ByRules).
pub trait Decide: Send + Sync + 'static {
    /// Starts to decide a request.
    fn decide(&self, request: &RequestHead<'_>) -> Deciding;
}

/// Names and values of headers about limits.
#[derive(Debug, Default)]
pub(super) struct HeaderLines {
    pub values: String,
    pub ends: HeaderEnds,
    /// The values that are not in `values`.
    pub fixed: Option<Arc<FixedValues>>,
}

/// The values of headers that are the same in all decisions by one limit. Cloning them is cheaper than writing them.
#[derive(Debug)]
pub(super) struct FixedValues {
    pub limit: HeaderValue,
    pub policy: HeaderValue,
}

impl RequestAnswer {
    /// A request that passes.
    pub(super) fn passes(kind: AnswerKind, remaining: u64) -> Self {
        Self {
            kind,
            problem: None,
            remaining,
            retry_after: Wait::NONE,
            waited: Nanos::ZERO,
            degraded: false,
            detail: Box::default(),
            violated_policies: Vec::new(),
        }
    }

    /// A request that does not pass.
    #[cold]
    pub(super) fn refused(problem: ProblemKind, retry_after: Wait, detail: impl Into<Box<str>>) -> Self {
        let kind = match problem {
            ProblemKind::Unavailable => AnswerKind::Unavailable,
            _ => AnswerKind::Denied,
        };
        let detail = detail.into();
        Self { problem: Some(problem), retry_after, detail, ..Self::passes(kind, 0) }
    }
}

impl Decided {
    /// Whether the request reaches the inner service, marked or not.
    #[cfg(feature = "rules")]
    #[inline]
    pub(super) fn passes(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| answer.kind.passes())
    }

    /// Records how long the request was held.
    pub(super) fn set_waited(&mut self, waited: Nanos) {
        if let Some(answer) = &mut self.answer {
            answer.waited = waited;
        }
    }

    /// A request that does not pass, without headers about limits.
    #[cold]
    pub(super) fn refused(problem: ProblemKind, retry_after: Wait, detail: impl Into<Box<str>>) -> Self {
        let answer = Some(Box::new(RequestAnswer::refused(problem, retry_after, detail)));
        let mut headers = HeaderLines::default();
        if let Some(span) = retry_after.span().filter(|_| retry_after > Wait::NONE) {
            headers.values = span.seconds_rounded_up().to_string();
            headers.ends.push(LimitHeader::RetryAfter, &headers.values);
        }
        Self { answer, headers, slot: None }
    }
}

impl HeaderLines {
    /// Adds the headers to a response, in place of those of the same name.
    #[inline]
    pub fn add_to(self, headers: &mut HeaderMap) {
        if !self.ends.is_empty() {
            self.add_all_to(headers);
        }
    }

    #[inline(never)]
    fn add_all_to(self, headers: &mut HeaderMap) {
        headers.reserve(self.ends.len());
        let values = Bytes::from(self.values);
        for (header, range) in self.ends.ranges(0) {
            let value = match (header, &self.fixed) {
                (LimitHeader::Limit, Some(fixed)) => fixed.limit.clone(),
                (LimitHeader::Policy, Some(fixed)) => fixed.policy.clone(),
                _ => header_value(values.slice(range)),
            };
            headers.insert(header_name(header), value);
        }
    }
}

impl FixedValues {
    /// The values among the headers of a decision.
    pub fn of(values: String, ends: &HeaderEnds) -> Self {
        let mut fixed = Self { limit: HeaderValue::from_static(""), policy: HeaderValue::from_static("") };
        let values = Bytes::from(values);
        for (header, range) in ends.ranges(0) {
            match header {
                LimitHeader::Limit => fixed.limit = header_value(values.slice(range)),
                LimitHeader::Policy => fixed.policy = header_value(values.slice(range)),
                _ => {}
            }
        }
        fixed
    }
}

fn header_value(text: Bytes) -> HeaderValue {
    // Always valid: numbers, and names in which all but printable ASCII is percent-encoded.
    HeaderValue::from_maybe_shared(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn header_name(header: LimitHeader) -> HeaderName {
    macro_rules! name {
        ($header:ident) => {{
            const NAME: HeaderName = HeaderName::from_static(LimitHeader::$header.name());
            NAME
        }};
    }
    match header {
        LimitHeader::RetryAfter => name!(RetryAfter),
        LimitHeader::XRetryAfter => name!(XRetryAfter),
        LimitHeader::Limit => name!(Limit),
        LimitHeader::Remaining => name!(Remaining),
        LimitHeader::Reset => name!(Reset),
        LimitHeader::Policy => name!(Policy),
        LimitHeader::State => name!(State),
    }
}

impl std::fmt::Debug for Deciding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Now(_) => "Deciding::Now",
            Self::Later(_) => "Deciding::Later",
        })
    }
}
