//! The most that each limit of the rules admits for one key.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use serde_json::{Value, json};
use tidegate::rules::{Domain, RuleLimit, RuleLimits};
use tidegate_core::algorithm::{WorstCase, WorstCaseScope};
use tidegate_core::{LimitId, Mode, ModeBound};

/// Limits that are listed at most.
const LISTED_LIMITS_MAX: usize = 100;

const MONTH_NS: u64 = 30 * 86_400_000_000_000;

/// The worst cases of the limits that can deny, in the order of the rules.
pub(super) struct WorstCases {
    nodes: NonZeroU32,
    listed: Vec<LimitWorstCase>,
    left_out: usize,
}

struct LimitWorstCase {
    domain: Box<str>,
    rule: Box<str>,
    plan: Option<Box<str>>,
    limit: LimitId,
    worst_case: WorstCase,
    /// What all nodes together admit.
    bound: ModeBound,
    is_denying_quota: bool,
}

impl WorstCases {
    /// If this many nodes share a store.
    pub fn of(domains: &[Domain], nodes: NonZeroU32) -> Self {
        let mut worst_cases = Self { nodes, listed: Vec::new(), left_out: 0 };
        for domain in domains {
            for rule in &domain.rules {
                let mut add = |plan: Option<&str>, limits: &[RuleLimit]| {
                    for (position, limit) in limits.iter().enumerate() {
                        let Some(worst_case) = rule.worst_case_of(limit) else { continue };
                        let Some(bound) = rule.mode_bound_of(limit, nodes) else { continue };
                        worst_cases.add(LimitWorstCase {
                            domain: domain.name.clone(),
                            rule: rule.name.clone(),
                            plan: plan.map(Box::from),
                            limit: LimitId::from_limit(&limit.limit, position),
                            worst_case,
                            bound,
                            is_denying_quota: rule.is_denying_quota(limit),
                        });
                    }
                };
                match &rule.limits {
                    RuleLimits::Same(limits) => add(None, limits),
                    RuleLimits::Tiers(tiers) => {
                        tiers.plans.iter().for_each(|(plan, limits)| add(Some(plan), limits));
                        add(Some("default"), &tiers.default);
                    }
                }
            }
        }
        worst_cases
    }

    fn add(&mut self, limit: LimitWorstCase) {
        if self.listed.len() < LISTED_LIMITS_MAX {
            self.listed.push(limit);
        } else {
            self.left_out += 1;
        }
    }

    /// One line for each limit. Empty without limits.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.listed.is_empty() {
            text.push_str(&match self.nodes.get() {
                1 => "at most, for each key:\n".to_owned(),
                nodes => format!("at most, for each key, by {nodes} nodes that share a store:\n"),
            });
        }
        for listed in &self.listed {
            let LimitWorstCase { domain, rule, plan, limit, bound, .. } = listed;
            let mode = match bound.mode {
                Mode::Strict => String::new(),
                mode => format!(" mode {}", mode.as_str()),
            };
            let plan = plan.as_ref().map(|plan| format!(" plan {plan}")).unwrap_or_default();
            let remark = listed.remark().map(|remark| format!(" ({remark})")).unwrap_or_default();
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {domain} {rule}{plan} {}{mode}: {bound}{remark}", limit_text(limit));
        }
        if self.left_out > 0 {
            let _ = writeln!(text, "  and {} more limits", self.left_out);
        }
        text
    }

    pub fn to_json(&self) -> Value {
        let limit_json = |limit: &LimitWorstCase| {
            let window_ns = match limit.worst_case.scope {
                WorstCaseScope::AnyWindow { window_ns } => Some(window_ns),
                _ => None,
            };
            json!({
                "domain": limit.domain,
                "rule": limit.rule,
                "plan": limit.plan,
                "limit": match &limit.limit {
                    LimitId::Name(name) => json!(name),
                    LimitId::Position(position) => json!(position + 1),
                },
                "worst_case": {
                    "units": limit.worst_case.units,
                    "window_ns": window_ns,
                    "text": limit.worst_case.to_string(),
                    "remark": limit.remark(),
                },
                "mode": limit.bound.mode.as_str(),
                "bound": bound_json(&limit.bound),
            })
        };
        self.listed.iter().map(limit_json).collect()
    }
}

/// As in `/v1/explain`.
fn bound_json(bound: &ModeBound) -> Value {
    let window_ns = match bound.scope {
        WorstCaseScope::AnyWindow { window_ns } => Some(window_ns),
        _ => None,
    };
    json!({
        "nodes": bound.nodes,
        "units": bound.units,
        "window_ns": window_ns,
        "excess": bound.excess.map(|excess| json!({
            "units_per_1000_per_second_and_node": excess.units_per_thousand,
            "round_trips": excess.round_trips,
            "units_in_all_max": excess.units_in_all_max,
            "paid_back": excess.is_paid_back,
        })),
        "text": bound.to_string(),
    })
}

fn limit_text(limit: &LimitId) -> String {
    match limit {
        LimitId::Name(name) => format!("limit {name}"),
        LimitId::Position(position) => format!("limit {}", position + 1),
    }
}

impl LimitWorstCase {
    /// What surprises people: a month in a limit is 30 days, and a quota can be exceeded.
    fn remark(&self) -> Option<String> {
        let month = match self.worst_case.scope {
            WorstCaseScope::AnyWindow { window_ns: MONTH_NS } => {
                Some("30 days, not a calendar month; that is `fixed_window` with `align: {tz: Europe/Paris}`")
            }
            _ => None,
        };
        let quota = self.is_denying_quota.then_some("and more while another quota of the request has room");
        let remarks: Vec<&str> = [month, quota].into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}
