//! Why a request gets its answer: which rules were considered, which apply and why the others do not, the keys, the
//! states and the outcomes. Nothing is charged.

mod json;
mod text;

use std::num::NonZeroU32;

use tidegate_core::algorithm::WorstCase;
use tidegate_core::rules::{
    Action, AnswerKind, AppliedOverride, CompiledDomain, Descriptor, Entry, KeyStatus, LimitAnswer, Request,
    Rule, RuleLimit, RuleLimits, RuleMatches, Tiers, key_text, missing_key_parts, value_text,
};
use tidegate_core::{Limit, LimitId, Mode, ModeBound, Outcome};

use super::Answer;
use crate::store::Store;

/// The most rules that an explanation lists for a descriptor, in addition to those that apply.
pub const EXPLAINED_RULES_MAX: usize = 1000;

/// Why a request gets its answer. [`Display`](std::fmt::Display) writes it for people, and [`to_json`](Self::to_json)
/// for programs.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The domain of the request.
    pub domain: String,
    /// Whether the domain has rules.
    pub is_known: bool,
    /// The explanation of each descriptor.
    pub descriptors: Vec<ExplainedDescriptor>,
    /// The answer that a check would have got.
    pub answer: Answer,
}

/// The explanation of one descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedDescriptor {
    /// Its attributes, as in `method=POST path=/login`.
    pub attributes: String,
    /// The rules that were considered, in their order.
    pub rules: Vec<ExplainedRule>,
    /// How many more rules do not apply and are not listed.
    pub rules_left_out: usize,
}

/// The explanation of one rule for a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedRule {
    /// The name of the rule.
    pub rule: Box<str>,
    /// Whether the rule applies, and why not.
    pub status: RuleStatus,
    /// The plan of the descriptor, if the rule applies and has plans.
    pub plan: Option<ExplainedPlan>,
}

/// Which plan a descriptor has, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedPlan {
    /// The name of the plan. `None` if the limits of the default apply.
    pub name: Option<Box<str>>,
    /// The attribute that names the plan.
    pub attribute: String,
    /// Its value, if the descriptor has the attribute.
    pub value: Option<String>,
}

/// Whether a rule applies to a descriptor, and why not.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleStatus {
    /// It applies.
    Applies(Vec<ExplainedLimit>),
    /// It does not match, for this reason.
    Mismatch(String),
    /// It matches, but so does this rule, which comes first.
    ShadowedBy(Box<str>),
    /// It matches, but this rule also applies and replaces it.
    ReplacedBy(Box<str>),
}

/// The explanation of one limit for a descriptor.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExplainedLimit {
    /// The limit's name within its rule, or its position.
    pub id: LimitId,
    /// The limit, with the L that counts for this request.
    pub spec: String,
    /// The key, as in `user=42`. Empty if one counter serves all requests.
    pub key: String,
    /// Whether the request has all parts of the key.
    pub key_status: KeyStatus,
    /// The override that the limit has its values from, or that blocks the key.
    pub applied_override: Option<AppliedOverride>,
    /// The parts of the key that the descriptor lacks, as rules write them. If the limit applies nevertheless, all
    /// requests that lack them share the counter.
    pub missing_parts: Vec<String>,
    /// What happens over the limit.
    pub action: Action,
    /// The most that the limit admits for one key, if one counter decides. `None` if it never denies.
    pub worst_case: Option<WorstCase>,
    /// Where it is counted. Without a shared store, [`Local`](Mode::Local).
    pub mode: Mode,
    /// The most that all nodes together admit for one key. `None` if it never denies.
    pub bound: Option<ModeBound>,
    /// Whether it is a quota that denies a request only if all quotas of the request are exceeded.
    pub is_denying_quota: bool,
    /// The cost of the request.
    pub cost: u64,
    /// What the answer would be without other limits.
    pub kind: AnswerKind,
    /// The outcome of the limit.
    pub outcome: Outcome,
    /// Whether the limit is a candidate: evaluated, but not enforced.
    pub is_candidate: bool,
}

impl Explanation {
    /// Explains the answer to a request over a store.
    pub(super) fn new(request: &Request<'_>, answer: Answer, store: &impl Store) -> Self {
        let nodes = if store.is_local() { Nodes::Alone } else { Nodes::Sharing(store.live_nodes()) };
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
                DescriptorExplainer { domain, matches: &all, number, descriptor, answer: &answer, nodes }
                    .explain()
            }
            _ => explain_without_rules(number, descriptor, &answer, nodes),
        });
        let (descriptors, is_known) = (descriptors.collect(), domain.is_some());
        Self { domain: request.domain.to_owned(), is_known, descriptors, answer }
    }
}

/// The nodes that share the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// There is no shared store.
    Alone,
    /// This many share a store.
    Sharing(NonZeroU32),
}

/// Explains one descriptor of a request.
struct DescriptorExplainer<'a> {
    domain: &'a CompiledDomain,
    /// The rules that each descriptor of the request matches.
    matches: &'a [RuleMatches],
    number: usize,
    descriptor: &'a Descriptor<'a>,
    answer: &'a Answer,
    nodes: Nodes,
}

impl DescriptorExplainer<'_> {
    fn explain(&self) -> ExplainedDescriptor {
        let (mut rules, mut not_matching, mut rules_left_out) = (Vec::new(), 0, 0);
        for (number, rule) in (0..).zip(self.domain.rules()) {
            // A level of an Envoy file without a limit.
            if rule.is_placeholder {
                continue;
            }
            if !self.matches[self.number].contains(&number) {
                not_matching += 1;
                if not_matching > EXPLAINED_RULES_MAX {
                    rules_left_out += 1;
                    continue;
                }
            }
            let status = self.status(number, rule);
            let plan = match (&rule.limits, &status) {
                (RuleLimits::Tiers(tiers), RuleStatus::Applies(_)) => Some(self.plan(tiers)),
                _ => None,
            };
            rules.push(ExplainedRule { rule: rule.name.clone(), status, plan });
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
            // In an Envoy file: a more specific level matched first, and its children did not match.
            (None, None) => RuleStatus::Mismatch("a closer match led elsewhere".to_owned()),
        }
    }

    fn plan(&self, tiers: &Tiers) -> ExplainedPlan {
        ExplainedPlan {
            name: tiers.plan_of(self.descriptor).map(Box::from),
            attribute: tiers.attribute.to_string(),
            value: self.descriptor.value(&tiers.attribute).map(|value| value_text(value).into_owned()),
        }
    }

    /// The rule that applies to the request and replaces `rule`.
    fn replacing_rule(&self, rule: &Rule) -> Option<&Rule> {
        let mut applying = self.matches.iter().flatten().map(|number| &self.domain.rules()[*number as usize]);
        applying
            .find(|other| other.replaces.contains(&rule.name) || (other.is_exemption && !rule.is_exemption))
    }

    fn limits(&self, rule: &Rule) -> Vec<ExplainedLimit> {
        let is_own =
            |limit: &LimitAnswer<'_>| limit.descriptor == self.number && std::ptr::eq(limit.rule, rule);
        let explained = |is_candidate| {
            move |limit: LimitAnswer<'_>| {
                let key = &limit.limit.key;
                let missing = missing_key_parts(key, self.descriptor);
                let missing = missing.into_iter().map(ToString::to_string).collect();
                ExplainedLimit::new(&limit, key_text(key, self.descriptor), missing, is_candidate, self.nodes)
            }
        };
        let limits = self.answer.limits().filter(is_own).map(explained(false));
        limits.chain(self.answer.candidates().filter(is_own).map(explained(true))).collect()
    }
}

impl ExplainedLimit {
    fn new(
        limit: &LimitAnswer<'_>,
        key: String,
        missing_parts: Vec<String>,
        is_candidate: bool,
        nodes: Nodes,
    ) -> Self {
        let (written, units) = (&limit.limit.limit, limit.current_limit());
        let current = match units == written.rate().limit() {
            true => written.clone(),
            false => written.resized(units),
        };
        let (mode, nodes) = match nodes {
            Nodes::Alone => (Mode::Local, NonZeroU32::MIN),
            Nodes::Sharing(nodes) => (limit.mode(), nodes),
        };
        let spec = current.to_string();
        let bounding = limit.rule.bounding_limit(&RuleLimit { limit: current, ..limit.limit.clone() });
        Self {
            id: limit.id.clone(),
            spec,
            key,
            key_status: limit.key_status,
            applied_override: limit.applied_override.cloned(),
            missing_parts,
            action: limit.limit.action.clone(),
            worst_case: bounding.as_ref().map(Limit::worst_case),
            mode,
            bound: bounding.map(|limit| limit.mode_bound(mode, nodes)),
            is_denying_quota: limit.rule.is_denying_quota(limit.limit),
            cost: limit.cost,
            kind: limit.kind,
            outcome: *limit.outcome,
            is_candidate,
        }
    }
}

/// The explanation of a descriptor without rules: empty, or the limit that the descriptor carries.
fn explain_without_rules(
    number: usize,
    descriptor: &Descriptor<'_>,
    answer: &Answer,
    nodes: Nodes,
) -> ExplainedDescriptor {
    let attributes = attributes(descriptor);
    let own = answer.limits().filter(|limit| limit.descriptor == number).map(|limit| ExplainedRule {
        rule: limit.rule.name.clone(),
        status: RuleStatus::Applies(vec![ExplainedLimit::new(
            &limit,
            attributes.clone(),
            Vec::new(),
            false,
            nodes,
        )]),
        plan: None,
    });
    let rules = own.collect();
    ExplainedDescriptor { attributes, rules, rules_left_out: 0 }
}

fn attributes(descriptor: &Descriptor<'_>) -> String {
    let entry = |entry: &Entry<'_>| format!("{}={}", value_text(entry.key), value_text(entry.value));
    descriptor.entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}
