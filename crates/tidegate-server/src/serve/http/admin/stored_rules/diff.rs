//! What differs between the active rules and others.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate::rules::{Apply, CompiledDomain, Rule, Ruleset};

use super::super::rules::rule_json;
use crate::serve::status::limiting_rules;

/// The most changes that are listed.
const CHANGES_MAX: usize = 1_000;
/// The most fields of a rule that are listed.
const FIELDS_MAX: usize = 50;

/// Changes of rules.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The first of them.
    pub listed: Vec<Value>,
    /// How many there are.
    pub in_all: usize,
}

/// Rules by their domain and name.
type RulesByName<'a> = BTreeMap<(&'a str, &'a str), &'a Rule>;

/// What changes if `after` replaces the active rules.
pub(super) fn changes(active: &Ruleset, after: &Ruleset) -> Changes {
    let mut changes = Changes::default();
    changes.compare_domains(&domains(active), &domains(after));
    let (before, after) = (rules(active), rules(after));
    for (place @ (domain, _), rule) in &before {
        match after.get(place) {
            None => changes.push("removed", place, &[]),
            Some(other) => {
                let fields = different_fields(&comparable(domain, rule), &comparable(domain, other));
                if !fields.is_empty() {
                    changes.push("changed", place, &fields);
                }
            }
        }
    }
    for place in after.keys().filter(|place| !before.contains_key(*place)) {
        changes.push("added", place, &[]);
    }
    changes
}

impl Changes {
    fn push(&mut self, change: &str, (domain, rule): &(&str, &str), fields: &[Value]) {
        self.in_all += 1;
        if self.listed.len() < CHANGES_MAX {
            let fields = &fields[..fields.len().min(FIELDS_MAX)];
            let rule = Some(*rule).filter(|rule| !rule.is_empty());
            self.listed.push(json!({ "change": change, "domain": domain, "rule": rule, "fields": fields }));
        }
    }

    fn compare_domains(&mut self, before: &BTreeMap<&str, Value>, after: &BTreeMap<&str, Value>) {
        for (domain, settings) in before {
            if let Some(other) = after.get(domain) {
                let fields = different_fields(settings, other);
                if !fields.is_empty() {
                    self.push("changed", &(domain, ""), &fields);
                }
            } else {
                self.push("removed", &(domain, ""), &[]);
            }
        }
        for domain in after.keys().filter(|domain| !before.contains_key(*domain)) {
            self.push("added", &(domain, ""), &[]);
        }
    }
}

fn domains(rules: &Ruleset) -> BTreeMap<&str, Value> {
    rules.domains().map(|domain| (domain.name(), domain_json(domain))).collect()
}

fn rules(rules: &Ruleset) -> RulesByName<'_> {
    let domains = rules.domains();
    domains
        .flat_map(|domain| limiting_rules(domain).map(move |rule| ((domain.name(), &*rule.name), rule)))
        .collect()
}

/// The settings of a domain. The order of rules matters if the first one applies, so it is one of them.
fn domain_json(domain: &CompiledDomain) -> Value {
    let pools = domain.pools().map(|(name, limit)| (name.to_owned(), Value::from(limit.to_string())));
    let is_ordered = domain.apply() == Apply::First;
    let order = || limiting_rules(domain).map(|rule| &*rule.name).collect::<Vec<_>>().join(", ");
    json!({
        "apply": if is_ordered { "first" } else { "all" },
        "pools": Value::Object(pools.collect()),
        "order": is_ordered.then(order),
        "dry_run": domain.is_shadow(),
    })
}

/// A rule as the API shows it, and what the API does not show.
fn comparable(domain: &str, rule: &Rule) -> Value {
    let mut value = rule_json(domain, rule);
    if let Value::Object(fields) = &mut value {
        let more = [
            ("on_store_failure", format!("{:?}", rule.on_store_failure)),
            ("deny_cache", format!("{:?}", rule.deny_cache)),
            ("overrides", format!("{:?}", rule.overridable)),
            ("override_miss", format!("{:?}", rule.on_override_miss)),
        ];
        fields.extend(more.map(|(name, text)| (name.to_owned(), text.to_lowercase().into())));
        // Long patterns are cut above.
        fields.insert("rest".into(), format!("{:?} {:?}", rule.conditions, rule.limits).into());
    }
    value
}

/// The fields that differ, each with both values.
fn different_fields(before: &Value, after: &Value) -> Vec<Value> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten("", before, &mut old);
    flatten("", after, &mut new);
    let rest_differs = old.remove("rest") != new.remove("rest");
    let names: Vec<&String> = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))).collect();
    let mut fields: Vec<Value> = names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| json!({ "field": name, "before": old.get(name), "after": new.get(name) }))
        .collect();
    if fields.is_empty() && rest_differs {
        fields.push(json!({ "field": "a part that is not shown", "before": null, "after": null }));
    }
    fields
}

/// Values that are not objects or lists, by their paths.
fn flatten<'v>(path: &str, value: &'v Value, out: &mut BTreeMap<String, &'v Value>) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) if *fields != Map::new() => {
            fields.iter().for_each(|(name, value)| flatten(&join(name), value, out));
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter()
                .enumerate()
                .for_each(|(index, value)| flatten(&format!("{path}[{}]", index + 1), value, out));
        }
        scalar => _ = out.insert(path.to_owned(), scalar),
    }
}
