//! Reads plans with their own limits.

use std::collections::HashMap;

use tidegate_core::rules::{Attribute, CaseSensitivity, RuleLimit, RuleLimits, Tiers};

use super::key::KeyScope;
use super::limit_settings::LimitSettings;
use super::{conditions, limits};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader, printable};

/// Plans of a rule at most.
const PLANS_MAX: usize = 1_000;

type TierPlan = (Box<str>, Vec<RuleLimit>);

/// `{ by: header.x-plan, plans: { free: [..] }, default: free }`
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<(RuleLimits, Vec<LimitSpans>)> {
    let mut fields = Fields::of(reader, node, "tiers")?;
    let by = fields.required(reader, "by", "name the attribute whose value is the plan: `by: header.x-plan`");
    let by = by.and_then(|node| plan_attribute(reader, node));
    let plans_node = fields.required(
        reader,
        "plans",
        "add the plans and their limits: `plans: { free: [ 10 per second ] }`",
    );
    let plans = plans_node.and_then(|node| plans(reader, node, settings, scope));
    if let (Some(by), Some(node)) = (&by, plans_node) {
        check_case_duplicates(reader, node, by);
    }
    let default = fields.required(
        reader,
        "default",
        "set what other requests get: the name of a plan, `unlimited` or `deny`",
    );
    fields.finish(reader, "tiers");
    let default = default_plan(reader, default?, plans.as_ref().map(|(plans, _)| &**plans), settings, scope);
    let (plans, mut limit_spans) = plans?;
    let default = match default? {
        DefaultLimits::Plan(limits) => limits,
        DefaultLimits::Own(limits, spans) => {
            limit_spans.extend(spans);
            limits
        }
    };
    Some((RuleLimits::Tiers(Tiers { attribute: by?, plans, default }), limit_spans))
}

/// An attribute whose value can name a plan: not an address, nor what only keys can use.
fn plan_attribute(reader: &mut Reader<'_>, node: &Node) -> Option<Attribute> {
    let text = node.text().unwrap_or_default();
    if text == "ip" || ["ip/", "path.", "entry."].iter().any(|key_prefix| text.starts_with(key_prefix)) {
        let message = format!("`{}` cannot choose a plan", printable(text));
        let diagnostic = Diagnostic::error("bad-plans", node.span, message);
        reader.push(
            diagnostic.hint("name an attribute whose value is the plan, or write a rule for each `match`"),
        );
        return None;
    }
    conditions::attribute(reader, node)
}

/// If the attribute ignores case, plans must differ by more than case.
fn check_case_duplicates(reader: &mut Reader<'_>, node: &Node, by: &Attribute) {
    let NodeKind::Map(plans) = &node.kind else { return };
    if by.case() == CaseSensitivity::Sensitive {
        return;
    }
    let mut first_spans = HashMap::new();
    for (key, _) in plans.iter() {
        let Some(name) = key.text() else { continue };
        if let Some(first) = first_spans.insert(name.to_ascii_lowercase(), key.span) {
            let message =
                format!("duplicate plan `{}`: `{by}` is compared without regard to case", printable(name));
            let diagnostic = Diagnostic::error("duplicate-name", key.span, message);
            reader.push(diagnostic.related(first, "first here").hint("leave one of them out"));
        }
    }
}

/// All plans, with the positions of their limits in order.
fn plans(
    reader: &mut Reader<'_>,
    node: &Node,
    settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<(Vec<TierPlan>, Vec<LimitSpans>)> {
    let fields = reader.mapping(node)?;
    if fields.is_empty() || fields.len() > PLANS_MAX {
        let diagnostic =
            Diagnostic::error("bad-plans", node.span, format!("there are {} plans", fields.len()));
        reader.push(diagnostic.hint(format!("write 1 to {PLANS_MAX} plans")));
        return None;
    }
    let (mut plans, mut limit_spans, mut is_valid) = (Vec::new(), Vec::new(), true);
    for (key, value) in fields {
        let name = super::name(reader, key);
        let limits = limits::read_list(reader, value, settings, scope);
        let (Some(name), Some(limits)) = (name, limits) else {
            is_valid = false;
            continue;
        };
        let (limits, spans) = limits::split_spans(limits);
        plans.push((name.into(), limits));
        limit_spans.extend(spans);
    }
    is_valid.then_some((plans, limit_spans))
}

enum DefaultLimits {
    Plan(Vec<RuleLimit>),
    Own(Vec<RuleLimit>, Vec<LimitSpans>),
}

/// The name of a plan, `unlimited`, `deny`, or limits. `plans` is none if they could not be read.
fn default_plan(
    reader: &mut Reader<'_>,
    node: &Node,
    plans: Option<&[TierPlan]>,
    settings: &LimitSettings,
    scope: &KeyScope,
) -> Option<DefaultLimits> {
    let is_plan = |text: &str| plans.is_some_and(|plans| plans.iter().any(|(plan, _)| **plan == *text));
    let denies = node.text().is_some_and(|text| ["deny", "0"].contains(&text) && !is_plan(text));
    if denies || matches!(&node.kind, NodeKind::Seq(_) | NodeKind::Map(_)) {
        let (limits, limit_spans) = limits::split_spans(limits::read_list(reader, node, settings, scope)?);
        return Some(DefaultLimits::Own(limits, limit_spans));
    }
    let (name, plans) = (reader.text(node)?, plans?);
    if let Some((_, limits)) = plans.iter().find(|(plan, _)| **plan == *name) {
        return Some(DefaultLimits::Plan(limits.clone()));
    }
    if name == "unlimited" {
        return Some(DefaultLimits::Plan(Vec::new()));
    }
    let mut plan_names: Vec<&str> = plans.iter().map(|(plan, _)| &**plan).collect();
    plan_names.extend(["unlimited", "deny"]);
    reader.unknown_keyword("plan", node, name, &plan_names);
    None
}
