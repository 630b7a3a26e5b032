//! What marks an answer: headers for the client and for the upstream, and metadata for the filters behind.
//!
//! Never the client's address or key.

use tidegate::rules::{Answer, AnswerKind, LimitId, Rule};

use super::Details;
use crate::serve::{headers, rounded};

/// What became of the request.
pub const DECISION_HEADER: &str = "x-tidegate-decision";
/// By which rule.
pub const RULE_HEADER: &str = "x-tidegate-rule";
/// That it was decided without the store that a fleet shares, because that did not answer: `true`.
pub const DEGRADED_HEADER: &str = "x-tidegate-degraded";
/// How long the request is to be held, in milliseconds.
pub const DELAY_HEADER: &str = "x-tidegate-delay-ms";

/// The most names of rules' own metadata that an answer carries along.
const RULE_METADATA_MAX: usize = 64;

/// A header to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// In lower case.
    pub name: &'static str,
    /// Characters of ASCII that can be seen, and spaces.
    pub value: String,
}

/// What marks an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations<'r> {
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For the filters behind.
    pub metadata: Option<DynamicMetadata<'r>>,
}

/// What filters behind get to know.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicMetadata<'r> {
    /// What became of the request.
    pub decision: &'static str,
    /// By which rule, if any limit was touched.
    pub rule: Option<&'r str>,
    /// By which limit of it: its name, or its place from 1.
    pub limit: Option<&'r LimitId>,
    /// How long the request is to be held.
    pub delay_ms: u64,
    /// When it would be admitted, if it is denied and not for ever.
    pub retry_after_ms: Option<u64>,
    /// Whether it was decided without the store that a fleet shares, because that did not answer.
    pub degraded: bool,
    /// What the rules that applied and did not turn the request away carry along, by name, each name once.
    pub rule_metadata: Vec<(&'r str, &'r str)>,
}

impl<'r> Annotations<'r> {
    /// What marks this answer.
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
            AnswerKind::ShadowDenied | AnswerKind::OverQuota | AnswerKind::Delayed => (details == Details::All, true),
            // To whom it is a secret, it stays one.
            AnswerKind::ShadowBanned => (false, true),
            AnswerKind::Soft => (true, true),
            _ => (true, false),
        };
        let mut marks = Self { metadata: Some(DynamicMetadata::from_answer(answer)), ..Self::default() };
        if for_client {
            let headers = &mut marks.response_headers;
            headers::for_each_header(answer, |header, value| {
                headers.push(Header { name: header.name(), value: value.to_owned() });
            });
            if matches!(answer.kind, AnswerKind::Soft | AnswerKind::Denied | AnswerKind::Unavailable) {
                push_decision(headers, answer);
            }
        }
        if for_upstream {
            push_decision(&mut marks.request_headers, answer);
            if answer.kind == AnswerKind::Delayed {
                let value = rounded::ceil_millis(answer.delay).to_string();
                marks.request_headers.push(Header { name: DELAY_HEADER, value });
            }
        }
        if answer.degraded {
            marks.push_degraded();
        }
        marks
    }

    /// Marks an answer, too, for which the store that a fleet shares was asked for more than a decision, and did not
    /// answer that.
    pub fn mark_degraded(&mut self, details: Details) {
        let is_marked = self.metadata.as_ref().is_some_and(|metadata| metadata.degraded);
        if details != Details::Off && !is_marked {
            self.push_degraded();
            // Only what is plainly allowed has none.
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
    /// That nothing was in the way.
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
            delay_ms: rounded::ceil_millis(answer.delay),
            retry_after_ms: answer.retry_after.span().filter(|_| is_denied).map(rounded::ceil_millis),
            degraded: answer.degraded,
            rule_metadata: rule_metadata(answer),
        }
    }
}

/// Of two rules with one name in their metadata, the later has it.
fn rule_metadata<'r>(answer: &'r Answer) -> Vec<(&'r str, &'r str)> {
    let passing = answer.limits().filter(|limit| limit.kind.passes());
    let rules = passing.map(|limit| limit.rule);
    let mut carried: Vec<(&str, &str)> = Vec::new();
    for (name, value) in rules.flat_map(|rule: &'r Rule| &rule.metadata) {
        match carried.iter().position(|(known, _)| *known == &**name) {
            Some(place) => carried[place].1 = value,
            None if carried.len() < RULE_METADATA_MAX => carried.push((name, value)),
            None => break,
        }
    }
    carried.sort_unstable();
    carried
}

fn push_decision(headers: &mut Vec<Header>, answer: &Answer) {
    headers.push(Header { name: DECISION_HEADER, value: answer.kind.as_str().to_owned() });
    if let Some(decider) = answer.decider() {
        let visible = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let value = decider.rule.name.chars().map(visible).collect();
        headers.push(Header { name: RULE_HEADER, value });
    }
}
