//! Annotations of a response: headers for the client and for the upstream, and metadata for later Envoy filters.
//!
//! They never contain the client's address or key.

use tidegate_core::text::percent_encode;
use tidegate::rules::{Answer, AnswerKind, LimitId, Rule};

use super::Details;
use crate::serve::{headers, rounding};

/// The decision.
pub const DECISION_HEADER: &str = "x-tidegate-decision";
/// The rule that decided.
pub const RULE_HEADER: &str = "x-tidegate-rule";
/// `true` if the decision was made without the shared store, because it did not answer.
pub const DEGRADED_HEADER: &str = "x-tidegate-degraded";
/// How long the request is to be delayed, in milliseconds.
pub const DELAY_HEADER: &str = "x-tidegate-delay-ms";

/// Maximum number of names from the metadata of rules.
const RULE_METADATA_MAX: usize = 64;

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
    /// The metadata of matching rules that did not deny the request, sorted by name, each name once.
    pub rule_metadata: Vec<(&'r str, &'r str)>,
}

impl<'r> Annotations<'r> {
    /// The annotations of an answer.
    #[inline]
    pub fn new(answer: &'r Answer, details: Details) -> Self {
        let is_marked = match details {
            Details::Off => false,
            Details::Marked => {
                answer.kind != AnswerKind::Allowed
                    || answer.degraded
                    || answer.limits().any(|limit| !limit.rule.metadata.is_empty())
            }
            Details::All => true,
        };
        if is_marked { Self::build(answer, details) } else { Self::default() }
    }

    #[cold]
    fn build(answer: &'r Answer, details: Details) -> Self {
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
            headers::for_each_header(answer, |header, value| {
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
            annotations.push_degraded();
        }
        annotations
    }

    /// Marks a response as degraded because the shared store failed after the decision, at a refund.
    pub fn mark_degraded(&mut self, details: Details) {
        let is_marked = self.metadata.as_ref().is_some_and(|metadata| metadata.degraded);
        if details != Details::Off && !is_marked {
            self.push_degraded();
            // Only a plain "allowed" has no metadata yet.
            self.metadata.get_or_insert(DynamicMetadata::ALLOWED).degraded = true;
        }
    }

    fn push_degraded(&mut self) {
        let degraded = || Header { name: DEGRADED_HEADER, value: "true".to_owned() };
        self.response_headers.push(degraded());
        self.request_headers.push(degraded());
    }
}

impl<'r> DynamicMetadata<'r> {
    /// The metadata of a request that no limit restricts.
    const ALLOWED: Self = Self {
        decision: AnswerKind::Allowed.as_str(),
        rule: None,
        limit: None,
        delay_ms: 0,
        retry_after_ms: None,
        degraded: false,
        rule_metadata: Vec::new(),
    };

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

/// If two rules have the same name in their metadata, the later one wins.
fn rule_metadata<'r>(answer: &'r Answer) -> Vec<(&'r str, &'r str)> {
    let passing = answer.limits().filter(|limit| limit.kind.passes());
    let rules = passing.map(|limit| limit.rule);
    let mut metadata: Vec<(&str, &str)> = Vec::new();
    for (name, value) in rules.flat_map(|rule: &'r Rule| &rule.metadata) {
        match metadata.iter().position(|(listed, _)| *listed == &**name) {
            Some(index) => metadata[index].1 = value,
            None if metadata.len() < RULE_METADATA_MAX => metadata.push((name, value)),
            None => break,
        }
    }
    metadata.sort_unstable();
    metadata
}

fn push_decision(headers: &mut Vec<Header>, answer: &Answer) {
    headers.push(Header { name: DECISION_HEADER, value: answer.kind.as_str().to_owned() });
    if let Some(decider) = answer.decider() {
        let value = percent_encode(&decider.rule.name, |c| matches!(c, ' '..='~') && c != '%');
        headers.push(Header { name: RULE_HEADER, value });
    }
}
