//! An explanation as JSON.

use serde_json::{Value, json};
use tidegate_core::algorithm::{WorstCase, WorstCaseScope};
use tidegate_core::rules::{KeyStatus, Ruleset};
use tidegate_core::{LimitId, ModeBound, Wait};

use super::{Answer, ExplainedDescriptor, ExplainedLimit, Explanation, RuleStatus};
use crate::overrides::provenance_json;

impl Explanation {
    /// The explanation as a JSON document. Durations are in nanoseconds. A wait that never ends is `null`.
    pub fn to_json(&self) -> String {
        let document = json!({
            "domain": self.domain,
            "known": self.is_known,
            "descriptors": self.descriptors.iter().map(|one| descriptor(one, self.answer.rules())).collect::<Vec<_>>(),
            "overrides": self.answer.lifted().map(|(rule, lifted)| json!({
                "rule": &*rule.name,
                "limit": id(self.answer.rules().resolve_position(lifted.position).limit.id()),
                "descriptor": lifted.descriptor,
                "override": provenance_json(&lifted.applied, self.answer.rules()),
            })).collect::<Vec<_>>(),
            "decision": decision(&self.answer),
        });
        document.to_string()
    }
}

fn decision(answer: &Answer) -> Value {
    let decider = answer.decider();
    json!({
        "decision": answer.kind.as_str(),
        "rule": decider.map(|limit| &*limit.rule.name),
        "limit": decider.map(|limit| id(limit.id)),
        "remaining": answer.decided_by.map(|_| answer.remaining),
        "retry_after_ns": wait(answer.retry_after),
        "reset_after_ns": number(answer.reset_after.get()),
        "delay_ns": number(answer.delay.get()),
    })
}

fn descriptor(descriptor: &ExplainedDescriptor, active: &Ruleset) -> Value {
    let rules = descriptor.rules.iter().map(|explained| {
        let name = &*explained.rule;
        match &explained.status {
            RuleStatus::Applies(limits) => {
                let plan = explained.plan.as_ref().map(|plan| plan.name.as_deref().unwrap_or("default"));
                let limits = limits.iter().map(|one| limit(one, active)).collect::<Vec<_>>();
                json!({ "rule": name, "applies": true, "plan": plan, "limits": limits })
            }
            RuleStatus::Mismatch(why) => json!({ "rule": name, "applies": false, "mismatch": why }),
            RuleStatus::ShadowedBy(first) => json!({ "rule": name, "applies": false, "behind": &**first }),
            RuleStatus::ReplacedBy(other) => {
                json!({ "rule": name, "applies": false, "replaced_by": &**other })
            }
        }
    });
    json!({
        "attributes": descriptor.attributes,
        "rules": rules.collect::<Vec<_>>(),
        "rules_left_out": descriptor.rules_left_out,
    })
}

fn limit(limit: &ExplainedLimit, rules: &Ruleset) -> Value {
    json!({
        "limit": id(&limit.id),
        "spec": limit.spec,
        "candidate": limit.is_candidate,
        "key": limit.key,
        "key_missing": limit.key_status == KeyStatus::Missing,
        "blocked": limit.key_status == KeyStatus::Blocked,
        "override": limit.applied_override.as_ref().map(|applied| provenance_json(applied, rules)),
        "missing_parts": limit.missing_parts,
        "shared": limit.key_status == KeyStatus::Present && !limit.missing_parts.is_empty(),
        "action": limit.action.as_str(),
        "worst_case": limit.worst_case.as_ref().map(worst_case),
        "mode": limit.mode.as_str(),
        "bound": limit.bound.as_ref().map(mode_bound_json),
        "denies_with_other_quotas": limit.is_denying_quota,
        "cost": limit.cost,
        "decision": limit.kind.as_str(),
        "remaining": limit.outcome.remaining,
        "retry_after_ns": wait(limit.outcome.retry_after),
        "reset_after_ns": number(limit.outcome.reset_after.get()),
        "delay_ns": number(limit.outcome.delay.get()),
    })
}

/// The most units, the window that they fall into, and both as text. Some limits have no such window.
fn worst_case(worst_case: &WorstCase) -> Value {
    let window_ns = match worst_case.scope {
        WorstCaseScope::AnyWindow { window_ns } => Some(window_ns),
        _ => None,
    };
    json!({ "units": worst_case.units, "window_ns": window_ns, "text": worst_case.to_string() })
}

/// The most that all nodes together admit, as JSON.
fn mode_bound_json(bound: &ModeBound) -> Value {
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

/// The limit's name, or its position, counted from 1.
fn id(id: &LimitId) -> Value {
    match id {
        LimitId::Name(name) => json!(&**name),
        LimitId::Position(position) => json!(position + 1),
    }
}

fn wait(wait: Wait) -> Value {
    wait.span().map_or(Value::Null, |span| number(span.get()))
}

/// A number of nanoseconds, at most `u64::MAX`.
fn number(nanos: u128) -> Value {
    json!(u64::try_from(nanos).unwrap_or(u64::MAX))
}
