//! Resets: of the keys of a request, or of a key of a rule. The reply names each counter that was reset.
//!
//! A request without a part of a key shares a counter with all such requests. A reset by request leaves that counter
//! alone and lists its limit in `not_reset`, because an operator who forgets an attribute does not mean it.

use std::collections::BTreeSet;

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tidegate::rules::{KeyPart, MatchedLimit, MatchedLimits, Request, Rule, Ruleset};
use tidegate_core::rules::{counted_value, key_value};
use tidegate_core::text::did_you_mean;
use tidegate_core::{Counter, CounterId};

use super::changes::{NAME_CHARS_MAX, no_such_domain};
use super::rules::limit_id_json;
use crate::json::{self, JsonRequest, ResetTarget, RuleKey};
use crate::serve::App;
use crate::serve::http::error_reply;
use crate::serve::http::reply::{self, Problem, Reply};
use crate::text;

/// Resets what the body names.
pub(super) async fn reset(app: &App, body: &[u8]) -> Reply {
    match json::read_reset(body) {
        Ok(ResetTarget::Request(json)) => reset_request(app, &json).await,
        Ok(ResetTarget::Key(key)) => reset_key(app, &key).await,
        Err(error) => error_reply::request_error_reply(&error),
    }
}

/// Resets the counters of a request's keys.
async fn reset_request(app: &App, json: &JsonRequest<'_>) -> Reply {
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json.domain(), descriptors: &descriptors };
    let rules = app.engine.rules();
    if rules.domain(request.domain).is_none() {
        return no_such_domain(request.domain);
    }
    let mut matched = rules.matched_limits(&request);
    let (mut done, mut not_done) = (Vec::new(), Vec::new());
    matched.retain(|limit| {
        let descriptor = &descriptors[limit.descriptor as usize];
        let parts = rules.resolve(&limit.limit).limit.limit().key.parts();
        let value = |part: &KeyPart| key_value(part, descriptor);
        if limit.lacks_key_part() {
            let missing = parts.iter().filter(|part| value(part).is_none()).map(ToString::to_string);
            not_done.push(limit_json(&rules, limit, "missing", &Value::from_iter(missing)));
        } else {
            let key: Map<_, _> = parts.iter().map(|part| (part.to_string(), json!(value(part)))).collect();
            done.push(limit_json(&rules, limit, "key", &Value::Object(key)));
        }
        !limit.lacks_key_part()
    });
    match app.reset(rules, matched).await {
        Ok(()) => reset_reply(&done, &not_done),
        Err(error) => error_reply::engine_error_reply(&error),
    }
}

/// Resets the counters that a rule has for a key, whatever its conditions, of all its plans.
async fn reset_key(app: &App, target: &RuleKey) -> Reply {
    let rules = app.engine.rules();
    let Some(domain) = rules.domain(&target.domain) else { return no_such_domain(&target.domain) };
    let Some(rule) = domain.rules().iter().find(|rule| *rule.name == *target.rule) else {
        return no_such_rule(&target.rule, domain.rules());
    };
    let find = |part: &KeyPart| target.key.iter().find(|(name, _)| is_part(rule, part, name));
    let value = |part: &KeyPart| {
        let text = find(part).and_then(|(_, value)| value.as_deref())?;
        Some(match part {
            KeyPart::Attribute(attribute) => attribute.comparable_part(text),
            _ => text,
        })
    };
    let mut plans = rules.limits_of_key(&target.domain, &target.rule, value).unwrap_or_default();
    plans
        .sort_by_cached_key(|plan| plan.all().iter().map(|limit| spec_of(&rules, limit)).collect::<Vec<_>>());
    let parts = all_parts(&rules, &plans);
    if let Some((name, _)) =
        target.key.iter().find(|(name, _)| !parts.iter().any(|part| is_part(rule, part, name)))
    {
        let name = text::printable(name.as_bytes(), NAME_CHARS_MAX);
        return bad_key(&format!("the key of the rule has no part `{name}`"), &parts);
    }
    let is_invalid = |part: &&KeyPart| value(part).is_some_and(|text| counted_value(part, text).is_none());
    if let Some(part) = parts.iter().find(is_invalid) {
        return bad_key(&format!("`{part}` is not an address"), &parts);
    }
    let (mut done, mut not_done) = (Vec::new(), Vec::new());
    let mut selected = Vec::new();
    // Plans of a rule may share a counter, which is listed once.
    let mut listed = BTreeSet::new();
    for mut matched in plans {
        matched.retain(|limit| {
            let parts = rules.resolve(&limit.limit).limit.limit().key.parts();
            let missing: Vec<String> =
                parts.iter().filter(|part| find(part).is_none()).map(ToString::to_string).collect();
            let is_complete = missing.is_empty();
            if !listed.insert((counter_id(&rules, limit), parts.to_vec())) {
                return is_complete;
            }
            if is_complete {
                let counted = |part: &KeyPart| value(part).and_then(|text| counted_value(part, text));
                let key: Map<_, _> =
                    parts.iter().map(|part| (part.to_string(), json!(counted(part)))).collect();
                done.push(limit_json(&rules, limit, "key", &Value::Object(key)));
            } else {
                not_done.push(limit_json(&rules, limit, "missing", &json!(missing)));
            }
            is_complete
        });
        selected.push(matched);
    }
    if done.is_empty() && !not_done.is_empty() {
        return bad_key("`key` lacks a part of every limit of the rule", &parts);
    }
    for matched in selected {
        if let Err(error) = app.reset(rules.clone(), matched).await {
            return error_reply::engine_error_reply(&error);
        }
    }
    reset_reply(&done, &not_done)
}

/// Whether an operator who writes `name` means this part of a rule's key. Entries of Envoy's descriptors go by the name
/// that the rule has for them, too.
fn is_part(rule: &Rule, part: &KeyPart, name: &str) -> bool {
    let is_entry_name = |index: usize| {
        let entry = rule.entries.as_ref().and_then(|entries| entries.patterns.get(index));
        entry.is_some_and(|(entry, _)| **entry == *name)
    };
    part.to_string() == name
        || match part {
            KeyPart::Attribute(attribute) => attribute.matches_key(name),
            KeyPart::Address { attribute, .. } => attribute.name() == name,
            KeyPart::Entry(index) => is_entry_name(*index),
            KeyPart::PathSegment { .. } | KeyPart::EntryName(_) => false,
        }
}

/// The parts of the keys of all limits.
fn all_parts(rules: &Ruleset, plans: &[MatchedLimits]) -> Vec<KeyPart> {
    let limits = plans.iter().flat_map(MatchedLimits::all);
    let mut parts: Vec<KeyPart> =
        limits.flat_map(|limit| rules.resolve(&limit.limit).limit.limit().key.parts()).cloned().collect();
    parts.sort();
    parts.dedup();
    parts
}

fn spec_of(rules: &Ruleset, limit: &MatchedLimit) -> String {
    rules.resolve(&limit.limit).limit.limit().limit.to_string()
}

/// Equal for limits of one rule that share a counter.
fn counter_id(rules: &Ruleset, limit: &MatchedLimit) -> CounterId {
    let limit = rules.resolve(&limit.limit).limit;
    Counter::with_id("", limit.id(), limit.limit().limit.clone()).id()
}

/// A limit for people and programs, with one more field.
fn limit_json(rules: &Ruleset, limit: &MatchedLimit, field: &str, value: &Value) -> Value {
    let resolved = rules.resolve(&limit.limit);
    json!({
        "rule": &*resolved.rule.name,
        "limit": limit_id_json(resolved.limit.id()),
        "spec": spec_of(rules, limit),
        field: value,
    })
}

fn reset_reply(done: &[Value], not_done: &[Value]) -> Reply {
    let result = if done.is_empty() { "nothing" } else { "reset" };
    reply::json(&json!({ "result": result, "limits": done.len(), "reset": done, "not_reset": not_done }))
}

fn no_such_rule(name: &str, rules: &[Rule]) -> Reply {
    let names: Vec<&str> = rules.iter().map(|rule| &*rule.name).collect();
    let hint = did_you_mean(name, &names).unwrap_or_else(|| "GET /v1/rules lists all rules".to_owned());
    let name = text::printable(name.as_bytes(), NAME_CHARS_MAX);
    let message = format!("the domain has no rule `{name}` (hint: {hint})");
    Problem::new(StatusCode::NOT_FOUND, message).into_reply()
}

fn bad_key(problem: &str, parts: &[KeyPart]) -> Reply {
    let hint = match parts {
        [] => "all requests share its counters, so omit `key`".to_owned(),
        parts => {
            let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
            format!("its parts are: {}; null stands for requests that lack a part", names.join(", "))
        }
    };
    Problem::new(StatusCode::BAD_REQUEST, format!("{problem} (hint: {hint})")).into_reply()
}
