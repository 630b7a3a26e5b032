//! The rules in force, a page at a time.

use std::fmt::{self, Write as _};

use hyper::StatusCode;
use serde_json::{Value, json};
use tidegate::rules::{
    Action, Apply, CostSource, CompiledDomain, ElasticSource, LimitId, RuleLimits, Margin, OnMissingKey, Pattern, Rule,
    RuleLimit,
};
use tidegate_core::text::{truncated, write_duration};

use crate::serve::App;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{ContentType, Problem, ErrorReply, Reply, reply};
use crate::serve::http::routes;
use crate::serve::status::limiting_rules;
use crate::text;

/// Rules on a page, if nothing else is asked for.
const RULES_PER_PAGE: usize = 100;
/// The most rules on a page.
const RULES_PER_PAGE_MAX: usize = 1_000;
/// No rule is added to a page that has this many bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// The most of a pattern that is shown, in bytes: a set may have a hundred thousand values.
const PATTERN_BYTES_MAX: usize = 1_000;
/// The most plans of a rule that are shown.
const PLANS_MAX: usize = 50;
/// The most domains that are listed.
const DOMAINS_MAX: usize = 1_000;
/// How much of a parameter from outside a message shows.
const PARAMETER_CHARS_MAX: usize = 40;

/// Which rules are asked for.
struct RulesQuery {
    domain: Option<String>,
    offset: usize,
    limit: usize,
}

/// The rules in force: `?domain=` of one domain, `?offset=` and `?limit=` so many from there on.
pub(super) fn page(app: &App, asked: &HttpRequest) -> Result<Reply, ErrorReply> {
    let wanted = RulesQuery {
        domain: routes::text_parameter(asked, "domain"),
        offset: number_parameter(asked, "offset", 0..=usize::MAX)?.unwrap_or(0),
        limit: number_parameter(asked, "limit", 1..=RULES_PER_PAGE_MAX)?.unwrap_or(RULES_PER_PAGE),
    };
    let active = app.engine.rules();
    let mut domains: Vec<&CompiledDomain> = active.domains().collect();
    domains.sort_unstable_by_key(|domain| domain.name());
    let is_wanted = |domain: &&CompiledDomain| wanted.domain.as_deref().is_none_or(|name| name == domain.name());
    let all = || {
        let domains = domains.iter().copied().filter(is_wanted);
        domains.flat_map(|domain| limiting_rules(domain).map(move |rule| (domain.name(), rule)))
    };
    let (mut rules, mut listed) = (String::new(), 0);
    for (domain, rule) in all().skip(wanted.offset).take(wanted.limit) {
        if rules.len() >= PAGE_BYTES_MAX {
            break;
        }
        let comma = if listed == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(rules, "{comma}{}", rule_json(domain, rule));
        listed += 1;
    }
    let (in_all, end) = (all().count(), wanted.offset.saturating_add(listed));
    let named = domains.iter().take(DOMAINS_MAX).map(|domain| domain_json(domain));
    let out = format!(
        r#"{{"domains":{},"domains_in_all":{},"rules_in_all":{in_all},"offset":{},"next_offset":{},"rules":[{rules}]}}"#,
        Value::from_iter(named),
        domains.len(),
        wanted.offset,
        json!((end < in_all).then_some(end)),
    );
    Ok(reply(StatusCode::OK, ContentType::Json, out))
}

/// A parameter that is a number.
fn number_parameter(
    asked: &HttpRequest,
    name: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Option<usize>, ErrorReply> {
    let Some(text) = routes::parameter(asked, name) else { return Ok(None) };
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => {
            let text = text::printable(text.as_bytes(), PARAMETER_CHARS_MAX);
            let hint = match range.end() {
                &usize::MAX => format!("a whole number from {}", range.start()),
                most => format!("a whole number from {} to {most}", range.start()),
            };
            let message = format!("`{name}` is `{text}` (hint: {hint})");
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

fn rule_json(domain: &str, rule: &Rule) -> Value {
    let conditions = rule.conditions.iter();
    let conditions =
        conditions.map(|one| json!({ "attribute": one.attribute.to_string(), "is": pattern_text(&one.pattern) }));
    let entries = rule.entries.as_ref().map(|entries| {
        let each = entries.patterns.iter().map(|(name, is)| json!({ "key": &**name, "is": pattern_text(is) }));
        json!({ "each": Value::from_iter(each), "more_may_follow": entries.allows_more })
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
    json!({
        "domain": domain,
        "name": &*rule.name,
        "was": rule.was,
        "conditions": Value::from_iter(conditions),
        "entries": entries,
        "limits": limits,
        "tiers": tiers,
        "candidate": rule.candidate.as_ref().map(|limit| limit_json(0, limit)),
        "replaces": rule.replaces,
        "metadata": rule.metadata.iter().map(|(name, value)| (name.to_string(), json!(value))).collect::<Value>(),
    })
}

fn limits_json(limits: &[RuleLimit]) -> Value {
    limits.iter().enumerate().map(|(place, limit)| limit_json(place, limit)).collect()
}

fn limit_json(place: usize, limit: &RuleLimit) -> Value {
    let id = match LimitId::from_limit(&limit.limit, place) {
        LimitId::Name(name) => json!(name),
        LimitId::Position(place) => json!(place + 1),
    };
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

/// As rules write it.
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

/// As rules write it; the beginning of it if it is long.
fn pattern_text(pattern: &Pattern) -> String {
    struct Truncated(String);
    impl fmt::Write for Truncated {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = PATTERN_BYTES_MAX - self.0.len();
            self.0.push_str(truncated(text, room));
            // An error ends the writing.
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut beginning = Truncated(String::new());
    let written = write!(beginning, "{pattern}");
    let Truncated(mut text) = beginning;
    text.push_str(if written.is_err() { "..." } else { "" });
    text
}
