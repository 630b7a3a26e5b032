//! Annotations of a response: headers for the client and for the upstream, and metadata for later Envoy filters.
//!
//! They never contain the client's address or key.

use tidegate::headers::HeaderDialect;
use tidegate::rules::{Answer, AnswerKind, LimitAnswer, LimitId, Metadata};

use tidegate_core::headers::header_name_text;

use super::Details;
use crate::serve::{headers, rounding};

/// The decision.
pub const DECISION_HEADER: &str = "x-tidegate-decision";
/// The rule that decided.
pub const RULE_HEADER: &str = "x-tidegate-rule";
/// `true` if the decision was made without the shared store, because it did not answer.
pub const DEGRADED_HEADER: &str = "x-tidegate-degraded";
/// `true` if the shared store was charged, but too few of its replicas have the charge.
pub const UNREPLICATED_HEADER: &str = "x-tidegate-unreplicated";
/// How long the request is to be delayed, in milliseconds.
pub const DELAY_HEADER: &str = "x-tidegate-delay-ms";

/// A header to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// In lower case.
    pub name: &'static str,
    /// Printable ASCII.
    pub value: String,
}

/// Annotations of a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations<'r> {
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For later filters.
    pub metadata: Option<DynamicMetadata<'r>>,
}

/// Metadata for later filters.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicMetadata<'r> {
    /// The decision.
    pub decision: &'static str,
    /// The rule that decided, if any limit matched.
    pub rule: Option<&'r str>,
    /// The limit that decided: its name, or its position from 1.
    pub limit: Option<&'r LimitId>,
    /// How long the request is to be delayed.
    pub delay_ms: u64,
    /// When the request would be allowed, if it is denied and not forever.
    pub retry_after_ms: Option<u64>,
    /// Whether the decision was made without the shared store, because it did not answer.
    pub degraded: bool,
    /// The merged metadata of the matching rules that did not deny the request and are not over their quota.
    pub rule_metadata: Metadata,
}

impl<'r> Annotations<'r> {
    /// The annotations of an answer.
    #[inline]
    pub fn new(answer: &'r Answer, details: Details, which: HeaderDialect) -> Self {
        let is_marked = match details {
            Details::Off => false,
            Details::Marked => {
                answer.kind != AnswerKind::Allowed
                    || answer.degraded
                    || answer.unreplicated
                    || answer.limits().any(|limit| !limit.rule.metadata.is_empty())
            }
            Details::All => true,
        };
        if is_marked { Self::build(answer, details, which) } else { Self::default() }
    }

    #[cold]
    fn build(answer: &'r Answer, details: Details, which: HeaderDialect) -> Self {
        let (for_client, for_upstream) = match answer.kind {
            AnswerKind::Allowed => (details == Details::All, details == Details::All),
            AnswerKind::ShadowDenied | AnswerKind::OverQuota | AnswerKind::Delayed => {
                (details == Details::All, true)
            }
            // A banned client must not notice the ban.
            AnswerKind::ShadowBanned => (false, true),
            AnswerKind::Soft => (true, true),
            _ => (true, false),
        };
        let mut annotations =
            Self { metadata: Some(DynamicMetadata::from_answer(answer)), ..Self::default() };
        if for_client {
            let headers = &mut annotations.response_headers;
            headers::for_each_header(answer, which, |header, value| {
                headers.push(Header { name: header.name(), value: value.to_owned() });
            });
            if matches!(answer.kind, AnswerKind::Soft | AnswerKind::Denied | AnswerKind::Unavailable) {
                push_decision(headers, answer);
            }
        }
        if for_upstream {
            push_decision(&mut annotations.request_headers, answer);
            if answer.kind == AnswerKind::Delayed {
                let value = rounding::ceil_millis(answer.delay).to_string();
                annotations.request_headers.push(Header { name: DELAY_HEADER, value });
            }
        }
        if answer.degraded {
            annotations.push_mark(DEGRADED_HEADER);
        }
        if answer.unreplicated {
            annotations.push_mark(UNREPLICATED_HEADER);
        }
        annotations
    }

    /// Marks a response as degraded because the shared store failed after the decision, at a refund.
    pub fn mark_degraded(&mut self, details: Details) {
        let is_marked = self.metadata.as_ref().is_some_and(|metadata| metadata.degraded);
        if details != Details::Off && !is_marked {
            self.push_mark(DEGRADED_HEADER);
            // Only a plain "allowed" has no metadata yet.
            self.metadata.get_or_insert_with(DynamicMetadata::allowed).degraded = true;
        }
    }

    fn push_mark(&mut self, name: &'static str) {
        let mark = || Header { name, value: "true".to_owned() };
        self.response_headers.push(mark());
        self.request_headers.push(mark());
    }
}

impl<'r> DynamicMetadata<'r> {
    /// The metadata of a request that no limit restricts.
    fn allowed() -> Self {
        Self {
            decision: AnswerKind::Allowed.as_str(),
            rule: None,
            limit: None,
            delay_ms: 0,
            retry_after_ms: None,
            degraded: false,
            rule_metadata: Metadata::default(),
        }
    }

    fn from_answer(answer: &'r Answer) -> Self {
        let decider = answer.decider();
        let is_denied = matches!(answer.kind, AnswerKind::Denied | AnswerKind::Unavailable);
        Self {
            decision: answer.kind.as_str(),
            rule: decider.map(|limit| &*limit.rule.name),
            limit: decider.map(|limit| limit.id),
            delay_ms: rounding::ceil_millis(answer.delay),
            retry_after_ms: answer.retry_after.span().filter(|_| is_denied).map(rounding::ceil_millis),
            degraded: answer.degraded,
            rule_metadata: rule_metadata(answer),
        }
    }
}

/// The metadata of the rules whose limits the request is within. The first descriptor wins.
fn rule_metadata(answer: &Answer) -> Metadata {
    let mut merged = Metadata::default();
    let mut values_left = Metadata::VALUES_MAX;
    let limits: Vec<LimitAnswer<'_>> = answer.limits().collect();
    let is_same_rule = |one: &LimitAnswer<'_>, next: &LimitAnswer<'_>| {
        one.descriptor == next.descriptor && std::ptr::eq(one.rule, next.rule)
    };
    // The limits of a rule follow each other.
    for limits in limits.chunk_by(is_same_rule) {
        let is_within = |limit: &LimitAnswer<'_>| limit.kind.passes() && limit.kind != AnswerKind::OverQuota;
        if limits.iter().all(is_within) {
            merged.merge(&limits[0].rule.metadata, &mut values_left);
        }
    }
    merged
}

fn push_decision(headers: &mut Vec<Header>, answer: &Answer) {
    headers.push(Header { name: DECISION_HEADER, value: answer.kind.as_str().to_owned() });
    if let Some(decider) = answer.decider() {
        let value = header_name_text(&decider.rule.name).into_owned();
        headers.push(Header { name: RULE_HEADER, value });
    }
}
