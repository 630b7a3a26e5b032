//! One rule in the native language.

use std::fmt::Write as _;

use tidegate_core::Limit;
use tidegate_core::rules::{
    Action, Attribute, CostFrom, DenyCache, Elastic, ElasticBy, KeyPart, Limits, Margin, Missing, Pattern,
    Rule, RuleLimit,
};
use tidegate_core::text::YamlText;

use super::names::Names;

/// The rule as an item of `rules`.
pub(super) fn write(text: &mut String, names: &mut Names, rule: &Rule) {
    let each = rule.entries.iter().flat_map(|entries| &entries.each);
    let each: Vec<(&str, &Pattern)> = each.map(|(key, pattern)| (&**key, pattern)).collect();
    _ = writeln!(text, "  - name: {}", YamlText(names.of(&rule.name)));
    _ = writeln!(text, "    entries: [{}]", entries(each.iter().copied()));
    match &rule.limits {
        Limits::Same(limits) => several(text, limits, &each),
        // Descriptors have no plans.
        Limits::Tiers(_) => {}
    }
    if !rule.replaces.is_empty() {
        let replaced: Vec<String> =
            rule.replaces.iter().map(|name| YamlText(names.of(name)).to_string()).collect();
        _ = writeln!(text, "    replaces: [{}]", replaced.join(", "));
    }
    if !rule.metadata.is_empty() {
        let pair = |(name, value): &(Box<str>, Box<str>)| format!("{}: {}", YamlText(name), YamlText(value));
        let pairs: Vec<String> = rule.metadata.iter().map(pair).collect();
        _ = writeln!(text, "    metadata: {{ {} }}", pairs.join(", "));
    }
    if let Some(policy) = rule.on_store_failure {
        _ = writeln!(text, "    on_store_failure: {}", policy.as_str());
    }
    if rule.deny_cache == DenyCache::Off {
        text.push_str("    deny_cache: false\n");
    }
}

/// Entries as a list's items.
pub(super) fn entries<'a>(each: impl Iterator<Item = (&'a str, &'a Pattern)>) -> String {
    let entry = |(key, pattern): (&str, &Pattern)| match pattern {
        Pattern::Exact(value) => format!("{{ {}: {} }}", YamlText(key), YamlText(value)),
        Pattern::Wildcard(wildcard) => {
            format!("{{ {}: {{ wildcard: {} }} }}", YamlText(key), YamlText(&wildcard.to_string()))
        }
        _ => format!("{{ {}: }}", YamlText(key)),
    };
    each.map(entry).collect::<Vec<_>>().join(", ")
}

/// The limits, and the terms of the first as those of the rule.
fn several(text: &mut String, limits: &[RuleLimit], each: &[(&str, &Pattern)]) {
    let Some(first) = limits.first() else {
        text.push_str("    limit: unlimited\n");
        return;
    };
    let of_rule = Terms::of(first, each);
    for (name, term, default) in of_rule.fields().into_iter().zip(Terms::default().fields()).map(both) {
        if term != default {
            _ = writeln!(text, "    {name}: {term}");
        }
    }
    if let [one] = limits {
        _ = writeln!(text, "    limit: {{ {} }}", fields(&one.limit));
        return;
    }
    text.push_str("    limits:\n");
    for one in limits {
        _ = write!(text, "      - {{ {}", fields(&one.limit));
        for (name, term, of_rule) in Terms::of(one, each).fields().into_iter().zip(of_rule.fields()).map(both)
        {
            if term != of_rule {
                _ = write!(text, ", {name}: {term}");
            }
        }
        text.push_str(" }\n");
    }
}

/// The terms on which a rule applies a limit, as they are written.
struct Terms {
    key: String,
    missing: &'static str,
    cost: String,
    action: String,
}

type NamedTerm<'t> = (&'static str, &'t str);

/// A term and what the same is elsewhere.
fn both<'t>(((name, term), (_, other)): (NamedTerm<'t>, NamedTerm<'t>)) -> (&'static str, String, String) {
    (name, term.to_owned(), other.to_owned())
}

impl Default for Terms {
    fn default() -> Self {
        let (missing, action) = (missing(Missing::default()), action(&Action::default()));
        Self { key: "[]".to_owned(), missing, cost: cost(&CostFrom::default()), action }
    }
}

impl Terms {
    fn of(limit: &RuleLimit, each: &[(&str, &Pattern)]) -> Self {
        let parts: Vec<String> = limit.key.parts().iter().filter_map(|one| part(one, each)).collect();
        Self {
            key: format!("[{}]", parts.join(", ")),
            missing: missing(limit.missing),
            cost: cost(&limit.cost),
            action: action(&limit.action),
        }
    }

    fn fields(&self) -> [NamedTerm<'_>; 4] {
        [("key", &self.key), ("missing", self.missing), ("cost", &self.cost), ("action", &self.action)]
    }
}

/// The part of a key, unless the rule itself says what its value is.
fn part(part: &KeyPart, each: &[(&str, &Pattern)]) -> Option<String> {
    let KeyPart::Entry(place) = part else { return Some(YamlText(&part.to_string()).to_string()) };
    let (name, pattern) = each.get(*place)?;
    let once = each.iter().filter(|(other, _)| other == name).count() == 1;
    match pattern {
        Pattern::Exact(_) => None,
        _ if once && is_its_name(name) => Some(YamlText(name).to_string()),
        _ => Some(part.to_string()),
    }
}

/// Whether a name in a key is that of a descriptor's entry, whose value is taken as it is.
fn is_its_name(name: &str) -> bool {
    let reserved = ["entry.", "path.", "ip/"].iter().any(|reserved| name.starts_with(reserved));
    !reserved && name != "header." && matches!(Attribute::named(name), Attribute::Plain(_))
}

fn missing(missing: Missing) -> &'static str {
    match missing {
        Missing::Skip => "skip",
        Missing::Deny => "deny",
        Missing::Shared => "shared",
    }
}

fn cost(cost: &CostFrom) -> String {
    match cost {
        CostFrom::Request => "request".to_owned(),
        CostFrom::Fixed(units) => units.to_string(),
        CostFrom::Attribute { attribute, default } => {
            format!("{{ attribute: {}, default: {default} }}", YamlText(&attribute.to_string()))
        }
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::Reject => "reject".to_owned(),
        Action::Shadow => "shadow".to_owned(),
        Action::ShadowBan => "shadow_ban".to_owned(),
        Action::Quota => "quota".to_owned(),
        Action::Delay { max_wait } => format!("{{ delay: {{ max_wait: {}ns }} }}", max_wait.get()),
        Action::Soft(Margin::Percent(percent)) => format!("{{ soft: {{ margin: {percent}% }} }}"),
        Action::Soft(Margin::Unlimited) => "{ soft: { margin: unlimited } }".to_owned(),
        Action::Elastic(Elastic { min, max, by }) => {
            let (kind, name) = match by {
                ElasticBy::Pool(name) => ("pool", name),
                ElasticBy::Signal(name) => ("signal", name),
            };
            format!("{{ elastic: {{ min: {min}, max: {max}, {kind}: {} }} }}", YamlText(name))
        }
    }
}

/// The fields of the limit's long form. Its name stands last there, as it is; all else needs no quotes.
fn fields(limit: &Limit) -> String {
    let written = limit.to_string();
    let fields = written.trim_start_matches('{');
    let fields = fields.strip_suffix('}').unwrap_or(fields);
    match limit.name() {
        None => fields.to_owned(),
        Some(name) => format!("{}{}", fields.strip_suffix(name).unwrap_or(fields), YamlText(name)),
    }
}
