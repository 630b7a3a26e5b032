//! Why a request gets the answer it gets: which rules were looked at, which apply and why the others do not, the keys,
//! the states and the outcome. Nothing is charged.

mod json;
mod text;

use tidegate_core::rules::{
    Answer, Descriptor, DomainRules, Entry, LimitAnswer, Matches, Request, Rule, Ruleset, key_text,
    value_text,
};
use tidegate_core::{PlanFull, Timestamp};

use super::InForce;
use crate::Clock;

/// The most rules that an explanation lists for a descriptor besides those that apply.
pub const EXPLAINED_RULES_MAX: usize = 1000;

/// Why a request gets the answer it gets. Written for people by [`Display`](std::fmt::Display), for programs by
/// [`to_json`](Self::to_json).
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation<'r> {
    /// The domain that the request names.
    pub domain: String,
    /// Whether it has rules.
    pub is_known: bool,
    /// What each descriptor comes to.
    pub descriptors: Vec<ExplainedDescriptor<'r>>,
    /// The answer, as a check would have been given it.
    pub answer: Answer<'r>,
}

/// What one descriptor comes to.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedDescriptor<'r> {
    /// Its attributes, as in `method=POST path=/login`.
    pub attributes: String,
    /// The rules that were looked at, in their order.
    pub rules: Vec<ExplainedRule<'r>>,
    /// How many more there are that do not apply.
    pub rules_left_out: usize,
}

/// What a rule has to do with a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedRule<'r> {
    /// The rule.
    pub rule: &'r Rule,
    /// Whether it applies, and why not.
    pub standing: Standing<'r>,
}

/// Whether a rule applies to a descriptor, and why not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Standing<'r> {
    /// It does.
    Applies(Vec<ExplainedLimit<'r>>),
    /// It does not match, for this reason.
    Mismatch(String),
    /// It matches, and so does this one, which comes first.
    Behind(&'r Rule),
    /// It matches, and this one, which applies too, replaces it.
    ReplacedBy(&'r Rule),
}

/// What a limit has to do with a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedLimit<'r> {
    /// The key, as in `user=42`; empty: one counter for everyone.
    pub key: String,
    /// What the limit says.
    pub answer: LimitAnswer<'r>,
    /// Whether it is only tried out.
    pub is_candidate: bool,
}

impl<C: Clock> InForce<'_, C> {
    /// Explains what [`check`](Self::check) would answer now.
    pub fn explain(&self, request: &Request<'_>) -> Result<Explanation<'_>, PlanFull> {
        self.explain_at(request, self.now())
    }

    /// As [`explain`](Self::explain), at an instant of the caller's.
    pub fn explain_at(&self, request: &Request<'_>, now: Timestamp) -> Result<Explanation<'_>, PlanFull> {
        let answer = self.peek_at(request, now)?;
        Ok(explanation(self.ruleset(), request, answer))
    }
}

/// Explains an answer that a request got by these rules.
pub(super) fn explanation<'r>(
    rules: &'r Ruleset,
    request: &Request<'_>,
    answer: Answer<'r>,
) -> Explanation<'r> {
    let domain = rules.domain(request.domain);
    let applying = |descriptor: &Descriptor<'_>| {
        let mut matches = Matches::new();
        if let (Some(domain), None) = (domain, descriptor.limit) {
            domain.matching(descriptor, &mut matches);
        }
        matches
    };
    let all: Vec<Matches> = request.descriptors.iter().map(applying).collect();
    let descriptors = request.descriptors.iter().enumerate().map(|(number, descriptor)| match domain {
        Some(domain) if descriptor.limit.is_none() => {
            Look { domain, all: &all, number, descriptor, answer: &answer }.explained()
        }
        _ => without_rules(number, descriptor, &answer),
    });
    let descriptors = descriptors.collect();
    Explanation { domain: request.domain.to_owned(), is_known: domain.is_some(), descriptors, answer }
}

/// One descriptor of a request, and all that is known of it.
struct Look<'a, 'r> {
    domain: &'r DomainRules,
    /// The rules that each descriptor of the request matches.
    all: &'a [Matches],
    number: usize,
    descriptor: &'a Descriptor<'a>,
    answer: &'a Answer<'r>,
}

impl<'r> Look<'_, 'r> {
    fn explained(&self) -> ExplainedDescriptor<'r> {
        let (mut rules, mut others, mut rules_left_out) = (Vec::new(), 0, 0);
        for (number, rule) in (0..).zip(self.domain.rules()) {
            // A place in the levels of Envoy's files where nothing is limited.
            if rule.placeholder {
                continue;
            }
            if !self.all[self.number].contains(&number) {
                others += 1;
                if others > EXPLAINED_RULES_MAX {
                    rules_left_out += 1;
                    continue;
                }
            }
            rules.push(ExplainedRule { rule, standing: self.standing(number, rule) });
        }
        ExplainedDescriptor { attributes: attributes(self.descriptor), rules, rules_left_out }
    }

    fn standing(&self, number: u32, rule: &'r Rule) -> Standing<'r> {
        let matched = &self.all[self.number];
        if matched.contains(&number) {
            return match self.replaces(rule) {
                Some(other) => Standing::ReplacedBy(other),
                None => Standing::Applies(self.limits(rule)),
            };
        }
        let first = matched.first().map(|first| &self.domain.rules()[*first as usize]);
        match (rule.mismatch(self.descriptor), first) {
            (Some(mismatch), _) => Standing::Mismatch(mismatch.to_string()),
            (None, Some(first)) => Standing::Behind(first),
            // Of Envoy's rules, one on whose way another, closer one was entered and led nowhere.
            (None, None) => Standing::Mismatch("a closer match led elsewhere".to_owned()),
        }
    }

    /// The rule that applies to the request and replaces this one.
    fn replaces(&self, rule: &Rule) -> Option<&'r Rule> {
        let mut applying = self.all.iter().flatten().map(|number| &self.domain.rules()[*number as usize]);
        applying.find(|other| other.replaces.contains(&rule.name))
    }

    fn limits(&self, rule: &Rule) -> Vec<ExplainedLimit<'r>> {
        let mine =
            |limit: &&LimitAnswer<'r>| limit.descriptor == self.number && std::ptr::eq(limit.rule, rule);
        let explained = |is_candidate| {
            move |answer: &LimitAnswer<'r>| {
                let key = key_text(&answer.limit.key, self.descriptor);
                ExplainedLimit { key, answer: answer.clone(), is_candidate }
            }
        };
        let limits = self.answer.limits.iter().filter(mine).map(explained(false));
        limits.chain(self.answer.candidates.iter().filter(mine).map(explained(true))).collect()
    }
}

/// What a descriptor comes to that no rule is looked at for: nothing, or the limit that it brought along.
fn without_rules<'r>(
    number: usize,
    descriptor: &Descriptor<'_>,
    answer: &Answer<'r>,
) -> ExplainedDescriptor<'r> {
    let attributes = attributes(descriptor);
    let own = answer.limits.iter().filter(|limit| limit.descriptor == number).map(|limit| {
        let key = attributes.clone();
        let limits = vec![ExplainedLimit { key, answer: limit.clone(), is_candidate: false }];
        ExplainedRule { rule: limit.rule, standing: Standing::Applies(limits) }
    });
    let rules = own.collect();
    ExplainedDescriptor { attributes, rules, rules_left_out: 0 }
}

/// The limit as it is in force.
fn spec(answer: &LimitAnswer<'_>) -> String {
    let (written, units) = (&answer.limit.limit, answer.limit_now());
    if units == written.rate().limit() { written.to_string() } else { written.resized(units).to_string() }
}

fn attributes(descriptor: &Descriptor<'_>) -> String {
    let entry = |entry: &Entry<'_>| format!("{}={}", value_text(entry.key), value_text(entry.value));
    descriptor.entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}
