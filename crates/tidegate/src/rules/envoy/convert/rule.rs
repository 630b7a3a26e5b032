//! Writes one native rule.

use std::fmt::Write as _;

use tidegate_core::rules::{
    Action, AddressAttribute, Attribute, CostSource, Elastic, ElasticSource, KeyPart, Margin, Metadata,
    MetadataValue, OnMissingKey, Pattern, Rule, RuleLimit, RuleLimits,
};
use tidegate_core::text::{YamlText, write_duration};
use tidegate_core::{Carry, DenyCache, Limit, RuleMode};

use super::names::RuleNames;

/// Writes the rule as an item of `rules`.
pub(super) fn write_rule(text: &mut String, names: &mut RuleNames, rule: &Rule) {
    let entries = rule.entries.iter().flat_map(|entries| &entries.patterns);
    let entries: Vec<(&str, &Pattern)> = entries.map(|(key, pattern)| (&**key, pattern)).collect();
    _ = writeln!(text, "  - name: {}", YamlText(names.name_for(&rule.name)));
    _ = writeln!(text, "    entries: [{}]", entries_text(entries.iter().copied()));
    match &rule.limits {
        RuleLimits::Same(limits) => write_limits(text, limits, &entries),
        // Descriptors have no plans.
        RuleLimits::Tiers(_) => {}
    }
    if !rule.replaces.is_empty() {
        let replaced: Vec<String> =
            rule.replaces.iter().map(|name| YamlText(names.name_for(name)).to_string()).collect();
        _ = writeln!(text, "    replaces: [{}]", replaced.join(", "));
    }
    if !rule.metadata.is_empty() {
        _ = writeln!(text, "    metadata: {}", metadata_text(&rule.metadata));
    }
    write_mode(text, rule.mode);
    if let Some(policy) = rule.on_store_failure {
        _ = writeln!(text, "    on_store_failure: {}", policy.as_str());
    }
    if rule.deny_cache == DenyCache::Off {
        text.push_str("    deny_cache: false\n");
    }
}

fn write_mode(text: &mut String, mode: RuleMode) {
    if mode != RuleMode::default() {
        _ = writeln!(text, "    mode: {}", mode.as_str());
    }
    match mode {
        RuleMode::Leased { lease_us: Some(lease_us) } => {
            _ = writeln!(text, "    lease_time: {}", write_duration(u64::from(lease_us.get()) * 1_000));
        }
        RuleMode::Eventual { sync_us, carry } => {
            if let Some(sync_us) = sync_us {
                _ = writeln!(text, "    sync_interval: {}", write_duration(u64::from(sync_us.get()) * 1_000));
            }
            if carry == Carry::Off {
                text.push_str("    carry: false\n");
            }
        }
        _ => {}
    }
}

/// Entries as the items of a list.
pub(super) fn entries_text<'a>(entries: impl Iterator<Item = (&'a str, &'a Pattern)>) -> String {
    let entry = |(key, pattern): (&str, &Pattern)| match pattern {
        Pattern::Exact(value) => format!("{{ {}: {} }}", YamlText(key), YamlText(value)),
        Pattern::Wildcard(wildcard) => {
            format!("{{ {}: {{ wildcard: {} }} }}", YamlText(key), YamlText(&wildcard.to_string()))
        }
        _ => format!("{{ {}: }}", YamlText(key)),
    };
    entries.map(entry).collect::<Vec<_>>().join(", ")
}

/// Writes the limits, with the settings of the first as those of the rule.
fn write_limits(text: &mut String, limits: &[RuleLimit], entries: &[(&str, &Pattern)]) {
    let Some(first) = limits.first() else {
        text.push_str("    limit: unlimited\n");
        return;
    };
    let rule_settings = SettingTexts::from_limit(first, entries);
    for (name, setting, default) in
        rule_settings.fields().into_iter().zip(SettingTexts::default().fields()).map(text_and_other)
    {
        if setting != default {
            _ = writeln!(text, "    {name}: {setting}");
        }
    }
    if let [limit] = limits {
        _ = writeln!(text, "    limit: {{ {} }}", limit_fields_text(&limit.limit));
        return;
    }
    text.push_str("    limits:\n");
    for limit in limits {
        _ = write!(text, "      - {{ {}", limit_fields_text(&limit.limit));
        for (name, setting, rule_settings) in SettingTexts::from_limit(limit, entries)
            .fields()
            .into_iter()
            .zip(rule_settings.fields())
            .map(text_and_other)
        {
            if setting != rule_settings {
                _ = write!(text, ", {name}: {setting}");
            }
        }
        text.push_str(" }\n");
    }
}

/// The settings with which a rule applies a limit, as text.
struct SettingTexts {
    key: String,
    missing: &'static str,
    cost: String,
    action: String,
}

type NamedText<'t> = (&'static str, &'t str);

/// A setting, and the same setting elsewhere.
fn text_and_other<'t>(
    ((name, setting), (_, other_text)): (NamedText<'t>, NamedText<'t>),
) -> (&'static str, String, String) {
    (name, setting.to_owned(), other_text.to_owned())
}

impl Default for SettingTexts {
    fn default() -> Self {
        let (missing, action) = (missing_text(OnMissingKey::default()), action_text(&Action::default()));
        Self { key: "[]".to_owned(), missing, cost: cost_text(&CostSource::default()), action }
    }
}

impl SettingTexts {
    fn from_limit(limit: &RuleLimit, entries: &[(&str, &Pattern)]) -> Self {
        let parts: Vec<String> =
            limit.key.parts().iter().filter_map(|part| key_part_text(part, entries)).collect();
        Self {
            key: format!("[{}]", parts.join(", ")),
            missing: missing_text(limit.missing),
            cost: cost_text(&limit.cost),
            action: action_text(&limit.action),
        }
    }

    fn fields(&self) -> [NamedText<'_>; 4] {
        [("key", &self.key), ("missing", self.missing), ("cost", &self.cost), ("action", &self.action)]
    }
}

/// A part of a key; none if the rule fixes its value.
fn key_part_text(part: &KeyPart, entries: &[(&str, &Pattern)]) -> Option<String> {
    let KeyPart::Entry(index) = part else { return Some(YamlText(&part.to_string()).to_string()) };
    let (name, pattern) = entries.get(*index)?;
    let is_unique = entries.iter().filter(|(other, _)| other == name).count() == 1;
    match pattern {
        Pattern::Exact(_) => None,
        _ if is_unique && is_plain_attribute(name) => Some(YamlText(name).to_string()),
        _ => Some(part.to_string()),
    }
}

/// Whether a name in a key is a plain entry, whose value is used as it is.
fn is_plain_attribute(name: &str) -> bool {
    let addresses = AddressAttribute::ALL.map(|address| format!("{}/", address.name()));
    let reserved = ["entry.", "path."].into_iter().chain(addresses.iter().map(String::as_str));
    let is_reserved = reserved.into_iter().any(|reserved| name.starts_with(reserved));
    !is_reserved && name != "header." && matches!(Attribute::from_name(name), Attribute::Plain(_))
}

/// Metadata as a flow mapping. Text that looks like another type is in quotes.
fn metadata_text(metadata: &Metadata) -> String {
    let pair = |(name, value): (&str, &MetadataValue)| format!("{}: {}", YamlText(name), value_text(value));
    let pairs: Vec<String> = metadata.iter().map(pair).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn value_text(value: &MetadataValue) -> String {
    match value {
        MetadataValue::Null => "null".to_owned(),
        MetadataValue::Boolean(truth) => truth.to_string(),
        MetadataValue::Number(number) => number.to_string(),
        MetadataValue::Text(text) => YamlText(text).to_string(),
        MetadataValue::List(values) => {
            let values: Vec<String> = values.iter().map(value_text).collect();
            format!("[{}]", values.join(", "))
        }
        MetadataValue::Object(object) => metadata_text(object),
    }
}

fn missing_text(missing: OnMissingKey) -> &'static str {
    match missing {
        OnMissingKey::Skip => "skip",
        OnMissingKey::Deny => "deny",
        OnMissingKey::Shared => "shared",
    }
}

fn cost_text(cost: &CostSource) -> String {
    match cost {
        CostSource::Request => "request".to_owned(),
        CostSource::Fixed(units) => units.to_string(),
        CostSource::Attribute { attribute, default } => {
            format!("{{ attribute: {}, default: {default} }}", YamlText(&attribute.to_string()))
        }
    }
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Reject => "reject".to_owned(),
        Action::Shadow => "shadow".to_owned(),
        Action::ShadowBan => "shadow_ban".to_owned(),
        Action::Quota => "quota".to_owned(),
        Action::Delay { max_wait } => format!("{{ delay: {{ max_wait: {}ns }} }}", max_wait.get()),
        Action::Soft(Margin::Percent(percent)) => format!("{{ soft: {{ margin: {percent}% }} }}"),
        Action::Soft(Margin::Unlimited) => "{ soft: { margin: unlimited } }".to_owned(),
        Action::Elastic(Elastic { min, max, source }) => {
            let (kind, name) = match source {
                ElasticSource::Pool(name) => ("pool", name),
                ElasticSource::Signal(name) => ("signal", name),
            };
            format!("{{ elastic: {{ min: {min}, max: {max}, {kind}: {} }} }}", YamlText(name))
        }
    }
}

/// The fields of the limit's long form. Its name comes last and may need quotes; nothing else does.
fn limit_fields_text(limit: &Limit) -> String {
    let text = limit.to_string();
    let fields = text.trim_start_matches('{');
    let fields = fields.strip_suffix('}').unwrap_or(fields);
    match limit.name() {
        None => fields.to_owned(),
        Some(name) => format!("{}{}", fields.strip_suffix(name).unwrap_or(fields), YamlText(name)),
    }
}
