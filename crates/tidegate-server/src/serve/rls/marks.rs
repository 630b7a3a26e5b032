//! What marks an answer: headers for the client and for the upstream, and metadata for the filters behind.
//!
//! Never the client's address or key.

use tidegate::rules::{Answer, Fate, LimitId, Rule};

use super::Details;
use crate::serve::{limit_headers, rounded};

/// What became of the request.
pub const DECISION_HEADER: &str = "x-tidegate-decision";
/// By which rule.
pub const RULE_HEADER: &str = "x-tidegate-rule";
/// That it was decided without the store that a fleet shares, because that did not answer: `true`.
pub const DEGRADED_HEADER: &str = "x-tidegate-degraded";
/// How long the request is to be held, in milliseconds.
pub const DELAY_HEADER: &str = "x-tidegate-delay-ms";

/// The most names of rules' own metadata that an answer carries along.
const CARRIED_MAX: usize = 64;

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
pub struct MarksOf<'r> {
    /// For the client.
    pub response_headers: Vec<Header>,
    /// For the upstream.
    pub request_headers: Vec<Header>,
    /// For the filters behind.
    pub metadata: Option<Metadata<'r>>,
}

/// What filters behind get to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata<'r> {
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
    pub carried: Vec<(&'r str, &'r str)>,
}

impl<'r> MarksOf<'r> {
    /// What marks this answer.
    #[inline]
    pub fn answer(answer: &'r Answer, details: Details) -> Self {
        let is_marked = match details {
            Details::Off => false,
            Details::Marked => {
                answer.fate != Fate::Allowed
                    || answer.degraded
                    || answer.limits().any(|limit| !limit.rule.metadata.is_empty())
            }
            Details::All => true,
        };
        if is_marked { Self::all(answer, details) } else { Self::default() }
    }

    #[cold]
    fn all(answer: &'r Answer, details: Details) -> Self {
        let (for_client, for_upstream) = match answer.fate {
            Fate::Allowed => (details == Details::All, details == Details::All),
            Fate::ShadowDenied | Fate::OverQuota | Fate::Delayed => (details == Details::All, true),
            // To whom it is a secret, it stays one.
            Fate::ShadowBanned => (false, true),
            Fate::Soft => (true, true),
            _ => (true, false),
        };
        let mut marks = Self { metadata: Some(Metadata::of(answer)), ..Self::default() };
        if for_client {
            let headers = &mut marks.response_headers;
            limit_headers::each(answer, |header, value| {
                headers.push(Header { name: header.name(), value: value.to_owned() });
            });
            if matches!(answer.fate, Fate::Soft | Fate::Denied | Fate::Unavailable) {
                push_decision(headers, answer);
            }
        }
        if for_upstream {
            push_decision(&mut marks.request_headers, answer);
            if answer.fate == Fate::Delayed {
                let value = rounded::millis(answer.delay).to_string();
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
    pub fn degrade(&mut self, details: Details) {
        let is_marked = self.metadata.as_ref().is_some_and(|metadata| metadata.degraded);
        if details != Details::Off && !is_marked {
            self.push_degraded();
            // Only what is plainly allowed has none.
            self.metadata.get_or_insert(Metadata::ALLOWED).degraded = true;
        }
    }

    fn push_degraded(&mut self) {
        let degraded = || Header { name: DEGRADED_HEADER, value: "true".to_owned() };
        self.response_headers.push(degraded());
        self.request_headers.push(degraded());
    }
}

impl<'r> Metadata<'r> {
    /// That nothing was in the way.
    const ALLOWED: Self = Self {
        decision: Fate::Allowed.as_str(),
        rule: None,
        limit: None,
        delay_ms: 0,
        retry_after_ms: None,
        degraded: false,
        carried: Vec::new(),
    };

    fn of(answer: &'r Answer) -> Self {
        let decider = answer.decider();
        let is_denied = matches!(answer.fate, Fate::Denied | Fate::Unavailable);
        Self {
            decision: answer.fate.as_str(),
            rule: decider.map(|limit| &*limit.rule.name),
            limit: decider.map(|limit| limit.id),
            delay_ms: rounded::millis(answer.delay),
            retry_after_ms: answer.retry_after.span().filter(|_| is_denied).map(rounded::millis),
            degraded: answer.degraded,
            carried: carried(answer),
        }
    }
}

/// Of two rules with one name in their metadata, the later has it.
fn carried<'r>(answer: &'r Answer) -> Vec<(&'r str, &'r str)> {
    let passing = answer.limits().filter(|limit| limit.fate.passes());
    let rules = passing.map(|limit| limit.rule);
    let mut carried: Vec<(&str, &str)> = Vec::new();
    for (name, value) in rules.flat_map(|rule: &'r Rule| &rule.metadata) {
        match carried.iter().position(|(known, _)| *known == &**name) {
            Some(place) => carried[place].1 = value,
            None if carried.len() < CARRIED_MAX => carried.push((name, value)),
            None => break,
        }
    }
    carried.sort_unstable();
    carried
}

fn push_decision(headers: &mut Vec<Header>, answer: &Answer) {
    headers.push(Header { name: DECISION_HEADER, value: answer.fate.as_str().to_owned() });
    if let Some(decider) = answer.decider() {
        let visible = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let value = decider.rule.name.chars().map(visible).collect();
        headers.push(Header { name: RULE_HEADER, value });
    }
}
