//! An explanation as text.

use std::fmt;

use tidegate_core::rules::{KeyStatus, LimitAnswer, Ruleset};
use tidegate_core::{LimitId, Mode, Outcome, Wait};

use super::{ExplainedDescriptor, ExplainedLimit, ExplainedPlan, Explanation, RuleStatus};
use crate::overrides::provenance_text;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_known {
            let consequence = if self.answer.limits().len() == 0 { ", so nothing is limited" } else { "" };
            writeln!(f, "domain {}: has no rules{consequence}", self.domain)?;
        }
        for (number, descriptor) in self.descriptors.iter().enumerate() {
            writeln!(f, "descriptor {}: {}", number + 1, descriptor.attributes)?;
            write_rules(f, descriptor, self.answer.rules())?;
        }
        for (rule, lifted) in self.answer.lifted() {
            writeln!(
                f,
                "rule {}: unlimited by override {}",
                rule.name,
                provenance_text(&lifted.applied, self.answer.rules())
            )?;
        }
        write!(f, "decision: {}", self.answer.kind.as_str())?;
        if let Some(decider) = self.answer.decider() {
            write!(
                f,
                " by {}, {}",
                limit_name(&decider),
                remaining_text(decider.key_status, decider.outcome)
            )?;
        }
        if self.answer.retry_after > Wait::NONE {
            write!(f, ", retry after {}", self.answer.retry_after)?;
        }
        writeln!(f)
    }
}

/// The rule and the limit, as in `login/per-ip` or `login limit 1`.
fn limit_name(limit: &LimitAnswer<'_>) -> String {
    match limit.id {
        LimitId::Name(name) => format!("{}/{name}", limit.rule.name),
        LimitId::Position(position) => format!("{} limit {}", limit.rule.name, position + 1),
    }
}

fn remaining_text(key_status: KeyStatus, outcome: &Outcome) -> String {
    match key_status {
        KeyStatus::Present => format!("{} remaining", outcome.remaining),
        KeyStatus::Missing => "part of the key is missing".to_owned(),
        KeyStatus::Blocked => "the key is blocked".to_owned(),
    }
}

fn write_rules(f: &mut fmt::Formatter<'_>, descriptor: &ExplainedDescriptor, rules: &Ruleset) -> fmt::Result {
    for explained in &descriptor.rules {
        write!(f, "  rule {}: ", explained.rule)?;
        match &explained.status {
            RuleStatus::Applies(limits) if limits.is_empty() => {
                writeln!(f, "applies{}, and limits nothing", PlanText(explained.plan.as_ref()))?;
            }
            RuleStatus::Applies(limits) => {
                writeln!(f, "applies{}", PlanText(explained.plan.as_ref()))?;
                limits.iter().try_for_each(|limit| write_limit(f, limit, rules))?;
            }
            RuleStatus::Mismatch(why) => writeln!(f, "does not match: {why}")?,
            RuleStatus::ShadowedBy(first) => writeln!(f, "matches, but {first} comes first")?,
            RuleStatus::ReplacedBy(other) => writeln!(f, "matches, but {other} replaces it")?,
        }
    }
    match descriptor.rules_left_out {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more rules that do not apply"),
    }
}

/// `, plan free`, or why the default applies.
struct PlanText<'a>(Option<&'a ExplainedPlan>);

impl fmt::Display for PlanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ExplainedPlan { name, attribute, value }) = self.0 else { return Ok(()) };
        match (name, value) {
            (Some(name), _) => write!(f, ", plan {name}"),
            (None, Some(value)) => write!(f, ", default of the plans ({attribute}={value} is none of them)"),
            (None, None) => write!(f, ", default of the plans ({attribute} missing)"),
        }
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, limit: &ExplainedLimit, rules: &Ruleset) -> fmt::Result {
    let ExplainedLimit { spec, key, key_status, cost, kind, outcome, action, .. } = limit;
    let role = if limit.is_candidate { "candidate" } else { "limit" };
    let key = if key.is_empty() { "everyone" } else { key };
    let shared = match (&*limit.missing_parts, key_status) {
        ([_, ..], KeyStatus::Present) => " (all requests that lack it share this counter)",
        _ => "",
    };
    write!(f, "    {role} {spec}, key {key}{shared}, cost {cost}, action {action}: ")?;
    write!(f, "{}, {}", kind.as_str(), remaining_text(*key_status, outcome))?;
    if outcome.retry_after > Wait::NONE {
        write!(f, ", retry after {}", outcome.retry_after)?;
    }
    if outcome.delay.get() > 0 {
        write!(f, ", delay {}", outcome.delay)?;
    }
    writeln!(f, ", reset after {}", outcome.reset_after)?;
    if let Some(applied) = &limit.applied_override {
        writeln!(f, "      override {}", provenance_text(applied, rules))?;
    }
    // The bounds of the other modes say it themselves, or do not depend on it.
    let sharing = match (&limit.bound, limit.mode) {
        (Some(bound), Mode::Leased { .. } | Mode::Eventual { .. }) => {
            let s = if bound.nodes.get() == 1 { "" } else { "s" };
            format!(" (mode {}, {} node{s})", limit.mode.as_str(), bound.nodes)
        }
        _ => String::new(),
    };
    match &limit.bound {
        Some(bound) if limit.is_denying_quota => {
            writeln!(
                f,
                "      admits at most {bound}{sharing}, and more while another quota of the request has room"
            )
        }
        Some(bound) => writeln!(f, "      admits at most {bound}{sharing}"),
        None => writeln!(f, "      never denies"),
    }
}
