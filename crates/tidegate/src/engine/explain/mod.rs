//! Why a request gets the answer it gets: which rules were looked at, which apply and why the others do not, the keys,
//! the states and the outcome. Nothing is charged.

mod json;
mod text;

use tidegate_core::Outcome;
use tidegate_core::rules::{
    KeyStatus, Descriptor, CompiledDomain, Entry, AnswerKind, LimitAnswer, LimitId, RuleMatches, Request, Rule, key_text,
    value_text,
};

use super::Answer;

/// The most rules that an explanation lists for a descriptor besides those that apply.
pub const EXPLAINED_RULES_MAX: usize = 1000;

/// Why a request gets the answer it gets. Written for people by [`Display`](std::fmt::Display), for programs by
/// [`to_json`](Self::to_json).
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain that the request names.
    pub domain: String,
    /// Whether it has rules.
    pub is_known: bool,
    /// What each descriptor comes to.
    pub descriptors: Vec<ExplainedDescriptor>,
    /// The answer, as a check would have been given it.
    pub answer: Answer,
}

/// What one descriptor comes to.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedDescriptor {
    /// Its attributes, as in `method=POST path=/login`.
    pub attributes: String,
    /// The rules that were looked at, in their order.
    pub rules: Vec<ExplainedRule>,
    /// How many more there are that do not apply.
    pub rules_left_out: usize,
}

/// What a rule has to do with a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedRule {
    /// The name of the rule.
    pub rule: Box<str>,
    /// Whether it applies, and why not.
    pub status: RuleStatus,
}

/// Whether a rule applies to a descriptor, and why not.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleStatus {
    /// It does.
    Applies(Vec<ExplainedLimit>),
    /// It does not match, for this reason.
    Mismatch(String),
    /// It matches, and so does the rule of this name, which comes first.
    ShadowedBy(Box<str>),
    /// It matches, and the rule of this name, which applies too, replaces it.
    ReplacedBy(Box<str>),
}

/// What a limit has to do with a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedLimit {
    /// Its name within the rule, or its position.
    pub id: LimitId,
    /// The limit, with the L that counts for this request.
    pub spec: String,
    /// The key, as in `user=42`; empty: one counter for everyone.
    pub key: String,
    /// Whether its counter was asked.
    pub key_status: KeyStatus,
    /// The units that it was asked for.
    pub cost: u64,
    /// What would become of the request if there were no other limit.
    pub kind: AnswerKind,
    /// The numbers.
    pub outcome: Outcome,
    /// Whether it is only tried out.
    pub is_candidate: bool,
}

impl Explanation {
    /// Explains the answer that a request got.
    pub(super) fn new(request: &Request<'_>, answer: Answer) -> Self {
        let domain = answer.rules().domain(request.domain);
        let applying = |descriptor: &Descriptor<'_>| {
            let mut matches = RuleMatches::new();
            if let (Some(domain), None) = (domain, descriptor.limit) {
                domain.matching_rules(descriptor, &mut matches);
            }
            matches
        };
        let all: Vec<RuleMatches> = request.descriptors.iter().map(applying).collect();
        let descriptors = request.descriptors.iter().enumerate().map(|(number, descriptor)| match domain {
            Some(domain) if descriptor.limit.is_none() => {
                DescriptorExplainer { domain, matches: &all, number, descriptor, answer: &answer }.explain()
            }
            _ => explain_without_rules(number, descriptor, &answer),
        });
        let (descriptors, is_known) = (descriptors.collect(), domain.is_some());
        Self { domain: request.domain.to_owned(), is_known, descriptors, answer }
    }
}

/// One descriptor of a request, and all that is known of it.
struct DescriptorExplainer<'a> {
    domain: &'a CompiledDomain,
    /// The rules that each descriptor of the request matches.
    matches: &'a [RuleMatches],
    number: usize,
    descriptor: &'a Descriptor<'a>,
    answer: &'a Answer,
}

impl DescriptorExplainer<'_> {
    fn explain(&self) -> ExplainedDescriptor {
        let (mut rules, mut others, mut rules_left_out) = (Vec::new(), 0, 0);
        for (number, rule) in (0..).zip(self.domain.rules()) {
            // A place in the levels of Envoy's files where nothing is limited.
            if rule.is_placeholder {
                continue;
            }
            if !self.matches[self.number].contains(&number) {
                others += 1;
                if others > EXPLAINED_RULES_MAX {
                    rules_left_out += 1;
                    continue;
                }
            }
            rules.push(ExplainedRule { rule: rule.name.clone(), status: self.status(number, rule) });
        }
        ExplainedDescriptor { attributes: attributes(self.descriptor), rules, rules_left_out }
    }

    fn status(&self, number: u32, rule: &Rule) -> RuleStatus {
        let matched = &self.matches[self.number];
        if matched.contains(&number) {
            return match self.replacing_rule(rule) {
                Some(other) => RuleStatus::ReplacedBy(other.name.clone()),
                None => RuleStatus::Applies(self.limits(rule)),
            };
        }
        let first = matched.first().map(|first| &self.domain.rules()[*first as usize]);
        match (rule.mismatch(self.descriptor), first) {
            (Some(mismatch), _) => RuleStatus::Mismatch(mismatch.to_string()),
            (None, Some(first)) => RuleStatus::ShadowedBy(first.name.clone()),
            // Of Envoy's rules, one on whose way another, closer one was entered and led nowhere.
            (None, None) => RuleStatus::Mismatch("a closer match led elsewhere".to_owned()),
        }
    }

    /// The rule that applies to the request and replaces this one.
    fn replacing_rule(&self, rule: &Rule) -> Option<&Rule> {
        let mut applying = self.matches.iter().flatten().map(|number| &self.domain.rules()[*number as usize]);
        applying.find(|other| other.replaces.contains(&rule.name))
    }

    fn limits(&self, rule: &Rule) -> Vec<ExplainedLimit> {
        let is_own =
            |limit: &LimitAnswer<'_>| limit.descriptor == self.number && std::ptr::eq(limit.rule, rule);
        let explained = |is_candidate| {
            move |limit: LimitAnswer<'_>| {
                ExplainedLimit::new(&limit, key_text(&limit.limit.key, self.descriptor), is_candidate)
            }
        };
        let limits = self.answer.limits().filter(is_own).map(explained(false));
        limits.chain(self.answer.candidates().filter(is_own).map(explained(true))).collect()
    }
}

impl ExplainedLimit {
    fn new(limit: &LimitAnswer<'_>, key: String, is_candidate: bool) -> Self {
        let (written, units) = (&limit.limit.limit, limit.current_limit());
        let spec = match units == written.rate().limit() {
            true => written.to_string(),
            false => written.resized(units).to_string(),
        };
        Self {
            id: limit.id.clone(),
            spec,
            key,
            key_status: limit.key_status,
            cost: limit.cost,
            kind: limit.kind,
            outcome: *limit.outcome,
            is_candidate,
        }
    }
}

/// What a descriptor comes to that no rule is looked at for: nothing, or the limit that it brought along.
fn explain_without_rules(number: usize, descriptor: &Descriptor<'_>, answer: &Answer) -> ExplainedDescriptor {
    let attributes = attributes(descriptor);
    let own = answer.limits().filter(|limit| limit.descriptor == number).map(|limit| ExplainedRule {
        rule: limit.rule.name.clone(),
        status: RuleStatus::Applies(vec![ExplainedLimit::new(&limit, attributes.clone(), false)]),
    });
    let rules = own.collect();
    ExplainedDescriptor { attributes, rules, rules_left_out: 0 }
}

fn attributes(descriptor: &Descriptor<'_>) -> String {
    let entry = |entry: &Entry<'_>| format!("{}={}", value_text(entry.key), value_text(entry.value));
    descriptor.entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}
