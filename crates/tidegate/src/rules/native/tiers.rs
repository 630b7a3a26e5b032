//! Plans with limits of their own.

use std::collections::HashMap;

use tidegate_core::rules::{Attribute, CaseSensitivity, RuleLimits, RuleLimit, Tiers};

use super::super::diagnostic::Diagnostic;
use super::super::file::LimitSpans;
use super::super::reader::{Fields, Reader};
use super::super::yaml::{NodeKind, Node, printable};
use super::key::KeyScope;
use super::limits;
use super::conditions;
use super::limit_settings::LimitSettings;

/// The most plans of a rule.
const PLANS_MAX: usize = 1_000;

type TierPlan = (Box<str>, Vec<RuleLimit>);

/// `{ by: header.x-plan, plans: { free: [..] }, default: free }`
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    terms: &LimitSettings,
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
    let plans = plans_node.and_then(|node| plans(reader, node, terms, scope));
    if let (Some(by), Some(node)) = (&by, plans_node) {
        check_case_duplicates(reader, node, by);
    }
    let default =
        fields.required(reader, "default", "say what everyone else has: the name of a plan, or `unlimited`");
    fields.finish(reader, "tiers");
    let known = plans.as_ref().map(|(plans, _)| &**plans);
    let default = default_plan(reader, default?, known, terms, scope);
    let (plans, mut at) = plans?;
    let default = match default? {
        DefaultLimits::Plan(limits) => limits,
        DefaultLimits::Own(limits, own) => {
            at.extend(own);
            limits
        }
    };
    Some((RuleLimits::Tiers(Tiers { attribute: by?, plans, default }), at))
}

/// An attribute whose value can be the name of a plan: not an address, nor what only keys know.
fn plan_attribute(reader: &mut Reader<'_>, node: &Node) -> Option<Attribute> {
    let text = node.text().unwrap_or_default();
    if text == "ip" || ["ip/", "path.", "entry."].iter().any(|of_keys| text.starts_with(of_keys)) {
        let message = format!("plans are not chosen by `{}`", printable(text));
        let found = Diagnostic::error("bad-plans", node.span, message);
        reader
            .push(found.hint("name an attribute whose value is the plan, or write a rule for each `match`"));
        return None;
    }
    conditions::attribute(reader, node)
}

/// Where upper and lower case do not differ, plans may not differ by that alone.
fn check_case_duplicates(reader: &mut Reader<'_>, node: &Node, by: &Attribute) {
    let NodeKind::Map(plans) = &node.kind else { return };
    if by.case() == CaseSensitivity::Sensitive {
        return;
    }
    let mut seen = HashMap::new();
    for (key, _) in plans.iter() {
        let Some(name) = key.text() else { continue };
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), key.span) {
            let message =
                format!("plan `{}` stands twice: `{by}` is compared without regard to case", printable(name));
            let found = Diagnostic::error("duplicate-name", key.span, message);
            reader.push(found.related(first, "first here").hint("leave one of them out"));
        }
    }
}

/// All plans, and where their limits stand one after the other.
fn plans(
    reader: &mut Reader<'_>,
    node: &Node,
    terms: &LimitSettings,
    scope: &KeyScope,
) -> Option<(Vec<TierPlan>, Vec<LimitSpans>)> {
    let fields = reader.mapping(node)?;
    if fields.is_empty() || fields.len() > PLANS_MAX {
        let found = Diagnostic::error("bad-plans", node.span, format!("there are {} plans", fields.len()));
        reader.push(found.hint(format!("write 1 to {PLANS_MAX} of them")));
        return None;
    }
    let (mut plans, mut at, mut sound) = (Vec::new(), Vec::new(), true);
    for (key, value) in fields {
        let name = super::name(reader, key);
        let read = limits::read_list(reader, value, terms, scope);
        let (Some(name), Some(read)) = (name, read) else {
            sound = false;
            continue;
        };
        let (limits, places) = limits::split_spans(read);
        plans.push((name.into(), limits));
        at.extend(places);
    }
    sound.then_some((plans, at))
}

enum DefaultLimits {
    Plan(Vec<RuleLimit>),
    Own(Vec<RuleLimit>, Vec<LimitSpans>),
}

/// The name of a plan, `unlimited`, or limits. Which plans there are is not known if they could not be read.
fn default_plan(
    reader: &mut Reader<'_>,
    node: &Node,
    plans: Option<&[TierPlan]>,
    terms: &LimitSettings,
    scope: &KeyScope,
) -> Option<DefaultLimits> {
    if let NodeKind::Seq(_) | NodeKind::Map(_) = &node.kind {
        let (limits, at) = limits::split_spans(limits::read_list(reader, node, terms, scope)?);
        return Some(DefaultLimits::Own(limits, at));
    }
    let (name, plans) = (reader.text(node)?, plans?);
    if let Some((_, limits)) = plans.iter().find(|(plan, _)| **plan == *name) {
        return Some(DefaultLimits::Plan(limits.clone()));
    }
    if name == "unlimited" {
        return Some(DefaultLimits::Plan(Vec::new()));
    }
    let mut known: Vec<&str> = plans.iter().map(|(plan, _)| &**plan).collect();
    known.push("unlimited");
    reader.unknown_keyword("plan", node, name, &known);
    None
}
