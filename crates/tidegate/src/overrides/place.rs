//! A place for an override, and what may be set there. What cannot work is refused, with a hint.

use std::collections::BTreeSet;

use tidegate_core::migration::supersede;
use tidegate_core::rules::{
    Access, CompiledLimit, KeyPart, OverridableRule, Override, OverrideValues, PreviousTier, PreviousValues,
    RuleLimits, Ruleset, counted_value,
};
use tidegate_core::text::did_you_mean;
use tidegate_core::{LimitId, Timestamp};

use super::edit_error::EditError;
use super::key_name::{KeyName, ValuePattern};
use super::record::PREVIOUS_MAX;

/// The longest note or author, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// Which override: of a key or wildcard, and of one limit or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverridePlace {
    /// The domain.
    pub domain: Box<str>,
    /// The rule.
    pub rule: Box<str>,
    /// The limit. If `None`, all limits of the rule with this key.
    pub limit_name: Option<Box<str>>,
    /// The attributes of the key with their values. A value may begin or end with `*`.
    pub key: Vec<(Box<str>, Box<str>)>,
}

/// What an override sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideChange {
    /// The numbers.
    pub values: OverrideValues,
    /// The plan of the rule whose limits apply.
    pub tier: Option<Box<str>>,
    /// Whether the key is limited.
    pub access: Access,
    /// The first instant at which it no longer applies.
    pub expires_at: Option<Timestamp>,
    /// The operator who sets it.
    pub author: Option<Box<str>>,
    /// Why it is set.
    pub note: Option<Box<str>>,
}

/// What applies to a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AppliedValues {
    pub values: OverrideValues,
    /// The plan of the rule. If `None`, the one that the attributes of the request say.
    pub tier: Option<Box<str>>,
}

/// What an edit replaces.
pub(super) struct ReplacedOverride<'a> {
    /// The override of the place.
    pub before: Option<&'a Override>,
    /// What applies to the key without it: the values of a wildcard, or none. `None` if a wildcard makes it unlimited.
    pub inherited: Option<AppliedValues>,
}

/// A place that the rules have.
pub(super) struct ResolvedPlace<'a> {
    pub name: KeyName,
    rule: OverridableRule<'a>,
    /// The limits of all tiers with this key.
    limits: Vec<&'a CompiledLimit>,
}

impl<'a> ResolvedPlace<'a> {
    /// Finds a place in the rules.
    pub fn resolve(rules: &'a Ruleset, place: &OverridePlace) -> Result<Self, EditError> {
        let refused = |text: String| EditError::Refused(text.into());
        let Some(domain) = rules.domain(&place.domain) else {
            let names: Vec<&str> = rules.domains().map(|domain| domain.name()).collect();
            return Err(refused(format!(
                "no domain is named `{}` ({})",
                place.domain,
                hint(&place.domain, &names)
            )));
        };
        let named =
            |rule: &OverridableRule<'_>| *rule.rule.name == *place.rule || *rule.identity == *place.rule;
        let Some(rule) = domain.overridable_rules().find(named) else {
            if domain.rules().iter().any(|rule| *rule.name == *place.rule) {
                return Err(refused(format!(
                    "the rule `{}` has `overrides: false` (hint: remove that from the rule, or change its limits there)",
                    place.rule
                )));
            }
            let names: Vec<&str> = domain.overridable_rules().map(|rule| &*rule.rule.name).collect();
            return Err(refused(format!(
                "no rule is named `{}` ({})",
                place.rule,
                hint(&place.rule, &names)
            )));
        };
        let limits: Vec<&CompiledLimit> =
            rule.limits.iter().filter(|limit| key_matches(limit, &place.key)).collect();
        let Some(first) = limits.first() else {
            let keys: BTreeSet<String> =
                rule.limits.iter().map(|limit| format!("[{}]", part_names(limit))).collect();
            let keys: Vec<String> = keys.into_iter().collect();
            return Err(refused(format!(
                "no limit of the rule `{}` has exactly these attributes as its key (hint: its keys are {})",
                place.rule,
                keys.join(" and ")
            )));
        };
        let mut parts = Vec::new();
        for part in first.limit().key.parts() {
            let name = part.to_string();
            let value = place.key.iter().find(|(key, _)| **key == *name).map_or("", |(_, value)| value);
            let pattern = ValuePattern::parse(value)
                .map_err(|problem| refused(format!("{name}={value}: {problem}")))?;
            let comparable = match part {
                KeyPart::Attribute(attribute) => attribute.comparable_part(pattern.literal()),
                _ => pattern.literal(),
            };
            if pattern.is_wildcard() && comparable != pattern.literal() {
                return Err(refused(format!(
                    "{name}={value}: a path is matched without its query (hint: leave it out)"
                )));
            }
            let counted = counted_value(part, comparable).map(|value| Box::<str>::from(value.as_ref()));
            let pattern = match pattern {
                ValuePattern::Exact(_) => counted.map(ValuePattern::Exact),
                _ if matches!(part, KeyPart::Address { .. }) => {
                    return Err(refused(format!(
                        "{name}={value}: an address takes no `*` (hint: match a CIDR block in a rule)"
                    )));
                }
                ValuePattern::Prefix(_) => counted.map(ValuePattern::Prefix),
                ValuePattern::Suffix(_) => counted.map(ValuePattern::Suffix),
            };
            let Some(pattern) = pattern else {
                return Err(refused(format!(
                    "{name}={value} is not an IP address (hint: write it as 192.0.2.1 or 2001:db8::1)"
                )));
            };
            parts.push((name.into(), pattern));
        }
        if parts.iter().filter(|(_, value): &&(Box<str>, ValuePattern)| value.is_wildcard()).count() > 1 {
            return Err(refused(
                "only one attribute of a key may have a `*` (hint: give the exact values of the others)"
                    .to_owned(),
            ));
        }
        let name = KeyName { domain: domain.name().into(), rule: rule.identity.into(), parts };
        Ok(Self { name, rule, limits })
    }
}

impl ResolvedPlace<'_> {
    /// The override of a place after a change.
    pub fn changed(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        replaced: &ReplacedOverride<'_>,
        now: Timestamp,
    ) -> Override {
        let after = AppliedValues { values: change.values, tier: change.tier.clone() };
        let previous = match change.access {
            // What it replaces is another block.
            Access::Blocked(_) => Vec::new(),
            _ => self.previous(replaced, &after, now),
        };
        Override {
            limit_name: place.limit_name.clone(),
            values: change.values,
            tier: change.tier.clone(),
            access: change.access,
            expires_at: change.expires_at,
            previous,
            set_at: now,
            author: change.author.clone(),
            note: change.note.clone(),
        }
    }

    /// The limits that an override of this place applies to.
    fn limits_of<'s>(&'s self, limit_name: Option<&'s str>) -> impl Iterator<Item = &'s CompiledLimit> {
        self.limits.iter().copied().filter(move |limit| self.is_meant(limit, limit_name))
    }

    fn is_meant(&self, limit: &CompiledLimit, limit_name: Option<&str>) -> bool {
        let has_key = self.limits.iter().any(|meant| std::ptr::eq(*meant, limit));
        has_key
            && match (limit_name, limit.id()) {
                (None, _) => true,
                (Some(name), LimitId::Name(id)) => *name == **id,
                (Some(_), LimitId::Position(_)) => false,
            }
    }

    pub fn check(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        now: Timestamp,
    ) -> Result<(), EditError> {
        let refused = |text: String| Err(EditError::Refused(text.into()));
        let OverrideChange { values, tier, access, expires_at, author, note } = change;
        let limit_name = place.limit_name.as_deref();
        if let Some(name) = limit_name
            && self.limits_of(limit_name).next().is_none()
        {
            let ids: Vec<String> = self.limits.iter().map(|limit| limit.id().to_string()).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            return refused(format!("no limit with this key is named `{name}` ({})", hint(name, &ids)));
        }
        if values.is_empty() && tier.is_none() && *access == Access::Limited {
            return refused(
                "the override sets nothing (hint: set a limit, a tier, unlimited, blocked or allow)"
                    .to_owned(),
            );
        }
        if matches!(access, Access::Blocked(_) | Access::Unlimited) && !(values.is_empty() && tier.is_none())
        {
            return refused(
                "a key that is blocked or unlimited has no limit or tier (hint: set one of them)".to_owned(),
            );
        }
        if expires_at.is_some_and(|expires_at| expires_at <= now) {
            return refused("the override has expired already (hint: set a later expiry)".to_owned());
        }
        if [author, note].into_iter().flatten().any(|text| text.len() > TEXT_BYTES_MAX) {
            return refused(format!(
                "author and note have at most {TEXT_BYTES_MAX} bytes (hint: shorten them)"
            ));
        }
        if !values.is_empty() {
            let ids: BTreeSet<String> =
                self.limits_of(limit_name).map(|limit| limit.id().to_string()).collect();
            if ids.len() > 1 {
                let ids: Vec<String> = ids.into_iter().collect();
                return refused(format!(
                    "several limits of the rule `{}` have this key: {} (hint: name one; a limit without a name needs one in \
                     the rules file)",
                    place.rule,
                    ids.join(", ")
                ));
            }
            for limit in self.limits_of(limit_name) {
                if !limit.has_overridable_values() {
                    return refused(
                        "an elastic limit moves by itself (hint: set a tier, unlimited or blocked instead)"
                            .to_owned(),
                    );
                }
                if let Err(error) = values.apply_to(&limit.limit().limit) {
                    return refused(error.to_string());
                }
            }
        }
        if let Some(tier) = tier {
            let RuleLimits::Tiers(tiers) = &self.rule.rule.limits else {
                return refused(format!(
                    "the rule `{}` has no tiers (hint: set a limit instead, or add `tiers` to the rule)",
                    place.rule
                ));
            };
            let plans: Vec<&str> = tiers.plans.iter().map(|(plan, _)| &**plan).collect();
            if !plans.contains(&&**tier) {
                return refused(format!("no tier is named `{tier}` ({})", hint(tier, &plans)));
            }
        }
        Ok(())
    }

    /// What has to stay enforced after a change to `after`, because its window is another.
    pub fn previous(
        &self,
        replaced: &ReplacedOverride<'_>,
        after: &AppliedValues,
        now: Timestamp,
    ) -> Vec<PreviousValues> {
        let ReplacedOverride { before, inherited } = replaced;
        let leftover = before.map(|before| before.previous.clone()).unwrap_or_default();
        let mut previous: Vec<PreviousValues> = leftover.into_iter().filter(|old| now < old.until).collect();
        let limit_name = before.and_then(|before| before.limit_name.as_deref());
        let old = match before.filter(|before| before.is_active(now)) {
            Some(active) => AppliedValues::of(active),
            None => inherited.clone(),
        };
        previous.extend(old.and_then(|old| self.replaced_values(&old, after, limit_name, now)));
        // An override that has expired a moment ago is still enforced too.
        if let Some(expired) = before.filter(|before| !before.is_active(now) && !before.is_leftover())
            && let (Some(old), Some(expires_at)) = (AppliedValues::of(expired), expired.expires_at)
        {
            let new = inherited.clone().unwrap_or_default();
            let old = self.replaced_values(&old, &new, limit_name, expires_at);
            previous.extend(old.filter(|old| now < old.until));
        }
        previous.sort_by_key(|previous| std::cmp::Reverse(previous.until));
        previous.truncate(PREVIOUS_MAX);
        previous
    }

    /// The values that were replaced at `at`, if a limit with them has another window than one with the new values.
    fn replaced_values(
        &self,
        old: &AppliedValues,
        new: &AppliedValues,
        limit_name: Option<&str>,
        at: Timestamp,
    ) -> Option<PreviousValues> {
        let tier = (old.tier != new.tier).then(|| PreviousTier { name: old.tier.clone(), changed_at: at });
        // Without a tier, the plan depends on the request. If both have the same plan, each limit is compared with itself.
        let limits = |tier: Option<&str>| match tier {
            Some(tier) => self.rule.limits_of_tier(tier),
            None => self.rule.limits,
        };
        let mut until = None;
        for old_limit in limits(old.tier.as_deref()) {
            for new_limit in limits(new.tier.as_deref()) {
                let is_successor = match tier {
                    None => std::ptr::eq(new_limit, old_limit),
                    Some(_) => new_limit.counter_identity() == old_limit.counter_identity(),
                };
                if is_successor
                    && self.is_meant(old_limit, limit_name)
                    && self.is_meant(new_limit, limit_name)
                    && let (Ok(old), Ok(new)) =
                        (old_limit.with_override(&old.values), new_limit.with_override(&new.values))
                {
                    let superseded = supersede(old.main_counter(), new.main_counter(), at);
                    until = until.max(superseded.map(|superseded| superseded.until));
                }
            }
        }
        let until = until?;
        Some(PreviousValues { values: old.values, tier, until })
    }
}

impl AppliedValues {
    /// Those of an override. `None` if the key is unlimited, so that nothing was counted.
    pub fn of(one: &Override) -> Option<Self> {
        let values = Self { values: one.values, tier: one.tier.clone() };
        (one.access != Access::Unlimited).then_some(values)
    }
}

/// Whether the key of a limit has exactly these attributes.
pub(super) fn key_matches(limit: &CompiledLimit, key: &[(Box<str>, Box<str>)]) -> bool {
    let parts = limit.limit().key.parts();
    let has = |part: &KeyPart| key.iter().any(|(name, _)| **name == *part.to_string());
    !parts.is_empty() && parts.len() == key.len() && parts.iter().all(has)
}

fn part_names(limit: &CompiledLimit) -> String {
    limit.limit().key.parts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(word: &str, known: &[&str]) -> String {
    const LISTED_MAX: usize = 20;
    let suggestion = did_you_mean(word, known);
    suggestion.map_or_else(
        || match known.len() {
            0 => "there is none".to_owned(),
            1..=LISTED_MAX => format!("there is: {}", known.join(", ")),
            number => format!("there are {number} others"),
        },
        |suggestion| format!("hint: {suggestion}"),
    )
}
