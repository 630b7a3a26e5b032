//! The active rules, page by page.

use std::fmt::{self, Write as _};
use std::num::NonZeroU32;

use hyper::StatusCode;
use serde_json::{Number, Value, json};
use tidegate::rules::{
    Action, Apply, Carry, CompiledDomain, CostSource, ElasticSource, LimitId, Margin, Metadata,
    MetadataValue, OnMissingKey, Pattern, Rule, RuleLimit, RuleLimits, RuleMode,
};
use tidegate_core::text::{truncated, write_duration};

use crate::serve::App;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{ContentType, ErrorReply, Problem, Reply, reply};
use crate::serve::http::routes;
use crate::serve::status::limiting_rules;
use crate::text;

/// Default number of rules per page.
const RULES_PER_PAGE: usize = 100;
/// Maximum number of rules per page.
const RULES_PER_PAGE_MAX: usize = 1_000;
/// A page of at least this many bytes gets no further rule.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes shown of a pattern: a set may have a hundred thousand values.
const PATTERN_BYTES_MAX: usize = 1_000;
/// Maximum number of plans shown for a rule.
const PLANS_MAX: usize = 50;
/// Maximum number of domains listed.
const DOMAINS_MAX: usize = 1_000;
/// Maximum characters of a parameter shown in an error.
const PARAMETER_CHARS_MAX: usize = 40;

/// Which rules are requested.
struct RulesQuery {
    domain: Option<String>,
    offset: usize,
    limit: usize,
}

/// The active rules: `?domain=` selects one domain, `?offset=` and `?limit=` a page.
pub(super) fn page(app: &App, request: &HttpRequest) -> Result<Reply, ErrorReply> {
    let query = RulesQuery {
        domain: routes::text_parameter(request, "domain"),
        offset: number_parameter(request, "offset", 0..=usize::MAX)?.unwrap_or(0),
        limit: number_parameter(request, "limit", 1..=RULES_PER_PAGE_MAX)?.unwrap_or(RULES_PER_PAGE),
    };
    let active = app.engine.rules();
    let mut domains: Vec<&CompiledDomain> = active.domains().collect();
    domains.sort_unstable_by_key(|domain| domain.name());
    let is_selected =
        |domain: &&CompiledDomain| query.domain.as_deref().is_none_or(|name| name == domain.name());
    let selected_rules = || {
        let domains = domains.iter().copied().filter(is_selected);
        domains.flat_map(|domain| limiting_rules(domain).map(move |rule| (domain.name(), rule)))
    };
    let (mut rules, mut listed) = (String::new(), 0);
    for (domain, rule) in selected_rules().skip(query.offset).take(query.limit) {
        if rules.len() >= PAGE_BYTES_MAX {
            break;
        }
        let comma = if listed == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(rules, "{comma}{}", rule_json(domain, rule));
        listed += 1;
    }
    let (rule_count, end) = (selected_rules().count(), query.offset.saturating_add(listed));
    let listed_domains = domains.iter().take(DOMAINS_MAX).map(|domain| domain_json(domain));
    let out = format!(
        r#"{{"domains":{},"domains_in_all":{},"rules_in_all":{rule_count},"offset":{},"next_offset":{},"rules":[{rules}]}}"#,
        Value::from_iter(listed_domains),
        domains.len(),
        query.offset,
        json!((end < rule_count).then_some(end)),
    );
    Ok(reply(StatusCode::OK, ContentType::Json, out))
}

/// A numeric query parameter.
pub(super) fn number_parameter(
    request: &HttpRequest,
    name: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, ErrorReply> {
    let Some(text) = routes::parameter(request, name) else { return Ok(None) };
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => {
            let text = text::printable(text.as_bytes(), PARAMETER_CHARS_MAX);
            let hint = match range.end() {
                &usize::MAX => format!("a whole number from {}", range.start()),
                max => format!("a whole number from {} to {max}", range.start()),
            };
            let message = format!("invalid `{name}`: `{text}` (hint: {hint})");
            Err(Problem::new(StatusCode::BAD_REQUEST, message).into_error_reply())
        }
    }
}

fn domain_json(domain: &CompiledDomain) -> Value {
    let apply = match domain.apply() {
        Apply::All => "all",
        Apply::First => "first",
    };
    json!({ "name": domain.name(), "apply": apply, "rules": limiting_rules(domain).count() })
}

pub(super) fn rule_json(domain: &str, rule: &Rule) -> Value {
    let conditions = rule.conditions.iter().map(|condition| {
        json!({ "attribute": condition.attribute.to_string(), "is": pattern_text(&condition.pattern) })
    });
    let entries = rule.entries.as_ref().map(|entries| {
        let patterns = entries.patterns.iter();
        let patterns = patterns.map(|(key, pattern)| json!({ "key": &**key, "is": pattern_text(pattern) }));
        json!({ "each": Value::from_iter(patterns), "more_may_follow": entries.allows_more })
    });
    let (limits, tiers) = match &rule.limits {
        RuleLimits::Same(limits) => (limits_json(limits), None),
        RuleLimits::Tiers(tiers) => {
            let plans = tiers.plans.iter().take(PLANS_MAX);
            let plans = plans.map(|(name, limits)| json!({ "plan": &**name, "limits": limits_json(limits) }));
            let tiers = json!({
                "by": tiers.attribute.to_string(),
                "plans": Value::from_iter(plans),
                "plans_in_all": tiers.plans.len(),
                "default": limits_json(&tiers.default),
            });
            (json!([]), Some(tiers))
        }
    };
    let (lease_us, sync_us, carry) = match rule.mode {
        RuleMode::Leased { lease_us } => (lease_us, None, None),
        RuleMode::Eventual { sync_us, carry } => (None, sync_us, Some(carry)),
        _ => (None, None, None),
    };
    json!({
        "domain": domain,
        "name": &*rule.name,
        "was": rule.was,
        "conditions": Value::from_iter(conditions),
        "entries": entries,
        "limits": limits,
        "tiers": tiers,
        "candidate": rule.candidate.as_ref().map(|limit| limit_json(0, limit)),
        "exempt": rule.is_exemption,
        "replaces": rule.replaces,
        "mode": rule.mode.as_str(),
        "lease_time": lease_us.map(micros_text),
        "sync_interval": sync_us.map(micros_text),
        "carry": carry.map(|carry| carry == Carry::On),
        "metadata": metadata_json(&rule.metadata),
    })
}

fn micros_text(micros: NonZeroU32) -> String {
    write_duration(u64::from(micros.get()) * 1_000)
}

fn metadata_json(metadata: &Metadata) -> Value {
    metadata.iter().map(|(name, value)| (name.to_owned(), metadata_value_json(value))).collect()
}

fn metadata_value_json(value: &MetadataValue) -> Value {
    match value {
        MetadataValue::Null => Value::Null,
        MetadataValue::Boolean(truth) => json!(truth),
        MetadataValue::Number(number) => json!(number.to_string().parse::<Number>().ok()),
        MetadataValue::Text(text) => json!(text),
        MetadataValue::List(values) => values.iter().map(metadata_value_json).collect(),
        MetadataValue::Object(object) => metadata_json(object),
    }
}

fn limits_json(limits: &[RuleLimit]) -> Value {
    limits.iter().enumerate().map(|(index, limit)| limit_json(index, limit)).collect()
}

/// The name of a limit, or its position from 1.
pub(super) fn limit_id_json(id: &LimitId) -> Value {
    match id {
        LimitId::Name(name) => json!(name),
        LimitId::Position(index) => json!(index + 1),
    }
}

fn limit_json(index: usize, limit: &RuleLimit) -> Value {
    let id = limit_id_json(&LimitId::from_limit(&limit.limit, index));
    let missing = match limit.missing {
        OnMissingKey::Skip => "skip",
        OnMissingKey::Deny => "deny",
        OnMissingKey::Shared => "shared",
    };
    let cost = match &limit.cost {
        CostSource::Request => json!("request"),
        CostSource::Fixed(cost) => json!(cost),
        CostSource::Attribute { attribute, default } => {
            json!({ "attribute": attribute.to_string(), "default": default })
        }
    };
    json!({
        "limit": id,
        "spec": limit.limit.to_string(),
        "key": limit.key.parts().iter().map(ToString::to_string).collect::<Value>(),
        "missing": missing,
        "cost": cost,
        "action": action_json(&limit.action),
    })
}

/// The action as rules write it.
fn action_json(action: &Action) -> Value {
    match action {
        Action::Reject => json!("reject"),
        Action::Shadow => json!("shadow"),
        Action::ShadowBan => json!("shadow_ban"),
        Action::Quota => json!("quota"),
        Action::Delay { max_wait } => {
            let max_wait = write_duration(u64::try_from(max_wait.get()).unwrap_or(u64::MAX));
            json!({ "delay": { "max_wait": max_wait } })
        }
        Action::Soft(Margin::Percent(percent)) => json!({ "soft": { "margin": format!("{percent}%") } }),
        Action::Soft(Margin::Unlimited) => json!({ "soft": { "margin": "unlimited" } }),
        Action::Elastic(elastic) => {
            let (by, name) = match &elastic.source {
                ElasticSource::Pool(name) => ("pool", name),
                ElasticSource::Signal(name) => ("signal", name),
            };
            json!({ "elastic": { "min": elastic.min, "max": elastic.max, by: &**name } })
        }
    }
}

/// The pattern as rules write it, truncated if it is long.
fn pattern_text(pattern: &Pattern) -> String {
    struct Truncated(String);
    impl fmt::Write for Truncated {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = PATTERN_BYTES_MAX - self.0.len();
            self.0.push_str(truncated(text, room));
            // The error stops the writing.
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut beginning = Truncated(String::new());
    let written = write!(beginning, "{pattern}");
    let Truncated(mut text) = beginning;
    text.push_str(if written.is_err() { "..." } else { "" });
    text
}
