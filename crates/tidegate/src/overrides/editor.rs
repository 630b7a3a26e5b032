//! Sets, deletes and lists overrides. What cannot work is refused, with a hint.
//!
//! An edit reads the record of the key, changes it, and writes it back on the condition that no other edit came between. If one
//! did, the edit starts over, unless the operator named the version to edit.

use std::collections::BTreeSet;
use std::fmt;

use tidegate_core::migration::supersede;
use tidegate_core::rules::{
    Access, CompiledLimit, KeyOverrides, KeyPart, OverridableRule, Override, OverrideValues, PreviousValues,
    RuleLimits, Ruleset, counted_value,
};
use tidegate_core::text::did_you_mean;
use tidegate_core::{LimitId, Timestamp};

use super::cache::OverrideCache;
use super::key_name::{KeyName, ValuePattern};
use super::record::{self, PREVIOUS_MAX};
use crate::config::{
    ConfigEntry, ConfigStoreError, ConfigVersion, ConfigWrite, RecordError, Scan, WriteCondition, WriteResult,
};

/// How often an edit starts over.
const ATTEMPTS_MAX: usize = 8;
/// The most rules that one call bans a key in.
pub const BAN_RULES_MAX: usize = 1_000;
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

/// Why an edit was refused. Nothing was changed, unless the store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EditError {
    /// It cannot work. Carries the reason, with a hint.
    Refused(Box<str>),
    /// The version is not the one that the operator named. Carries the current one, if there is an override.
    Conflict(Option<u64>),
    /// There is no such override.
    NotFound,
    /// The config store failed.
    Store(ConfigStoreError),
}

/// An edit that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedOverride {
    /// The key.
    pub name: KeyName,
    /// The version after the edit.
    pub version: u64,
    /// The override before the edit.
    pub before: Option<Override>,
    /// The override after the edit.
    pub after: Option<Override>,
}

/// A page of overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedOverrides {
    /// The overrides with their keys.
    pub entries: Vec<(KeyName, KeyOverrides)>,
    /// Records that cannot be read, with the reason.
    pub unusable: Vec<String>,
    /// Where the next page begins. `None` if this is the last one.
    pub next: Option<Box<str>>,
}

/// Edits the overrides of a config store, by the rules that are active.
#[derive(Clone, Copy, Debug)]
pub struct OverrideEditor<'a> {
    pub(super) cache: &'a OverrideCache,
    rules: &'a Ruleset,
}

/// The overrides of a key that an edit replaces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replaced<'a> {
    /// All of this place.
    Place(&'a OverridePlace),
    /// The block of this place.
    BlockOf(&'a OverridePlace),
    /// The blocks of all places.
    AllBlocks,
}

/// A place that the rules have.
pub(super) struct ResolvedPlace<'a> {
    pub name: KeyName,
    rule: OverridableRule<'a>,
    /// The limits of all tiers with this key.
    limits: Vec<&'a CompiledLimit>,
}

impl<'a> OverrideEditor<'a> {
    /// Edits the overrides behind `cache`. They must fit `rules`.
    pub fn new(cache: &'a OverrideCache, rules: &'a Ruleset) -> Self {
        Self { cache, rules }
    }

    /// Sets an override. It replaces the one that the place had. With `if_version`, only if the overrides of the key have this
    /// version; 0 means that there are none.
    pub async fn set(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        if_version: Option<u64>,
        now: Timestamp,
    ) -> Result<EditedOverride, EditError> {
        let resolved = self.resolve(place)?;
        resolved.check(place, change, now)?;
        let after = |before: Option<&Override>| Some(resolved.changed(place, change, before, now));
        self.edit(&resolved, Replaced::Place(place), if_version, after).await
    }

    /// Blocks a key. An override that it has is kept, and applies again after the block.
    pub async fn block(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        now: Timestamp,
    ) -> Result<EditedOverride, EditError> {
        let resolved = self.resolve(place)?;
        resolved.check(place, change, now)?;
        let after = |_: Option<&Override>| Some(resolved.changed(place, change, None, now));
        self.edit(&resolved, Replaced::BlockOf(place), None, after).await
    }

    /// Removes all blocks of a key, and keeps its other overrides.
    pub async fn unblock(&self, place: &OverridePlace) -> Result<EditedOverride, EditError> {
        let resolved = self.resolve(place)?;
        self.edit(&resolved, Replaced::AllBlocks, None, |_| None).await
    }

    /// Deletes an override. A window that it had stays enforced for a while.
    pub async fn delete(
        &self,
        place: &OverridePlace,
        if_version: Option<u64>,
        now: Timestamp,
    ) -> Result<EditedOverride, EditError> {
        let resolved = self.resolve(place)?;
        let edited = self
            .edit(&resolved, Replaced::Place(place), if_version, |before| {
                let previous = resolved.previous(before, &OverrideValues::default(), now);
                let until = previous.iter().map(|previous| previous.until).max();
                // It says only what is still enforced, and ends with it.
                until.map(|until| Override {
                    limit_name: place.limit_name.clone(),
                    expires_at: Some(until),
                    previous,
                    set_at: now,
                    ..Override::default()
                })
            })
            .await?;
        if edited.before.is_none() { Err(EditError::NotFound) } else { Ok(edited) }
    }

    /// The overrides of a key, for all of its limits.
    pub async fn get(&self, place: &OverridePlace) -> Result<Option<(KeyName, KeyOverrides)>, EditError> {
        let ResolvedPlace { name, .. } = self.resolve(place)?;
        let id = encode(&name)?;
        let entry = self.cache.store().get(&id).await?;
        let decoded = entry.map(|entry| record::decode(&id, entry.version.get(), &entry.value)).transpose();
        let overrides = decoded.map_err(|error| {
            EditError::Refused(
                format!("the override of this key cannot be read: {error} (hint: set or delete it)").into(),
            )
        })?;
        Ok(overrides.map(|overrides| (name, overrides)))
    }

    /// A page of overrides whose keys in the config store begin with `prefix`, after `after`.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        entries_max: usize,
    ) -> Result<ListedOverrides, EditError> {
        let page = self.cache.store().scan(Scan { prefix, after, entries_max }).await?;
        let mut listed = ListedOverrides::default();
        if page.has_more {
            listed.next = page.entries.last().map(|entry| entry.key.clone());
        }
        for ConfigEntry { key, value, version } in page.entries {
            let decoded = record::decode(&key, version.get(), &value).map_err(|error| error.to_string());
            match KeyName::decode(&key)
                .map_err(|error| error.to_string())
                .and_then(|name| decoded.map(|it| (name, it)))
            {
                Ok(entry) => listed.entries.push(entry),
                Err(error) => listed.unusable.push(format!("{key:?}: {error}")),
            }
        }
        Ok(listed)
    }

    /// The places where a key with exactly these attributes can be banned: all rules that have it, or those of a domain or with a
    /// name.
    pub fn places_of_key(
        &self,
        domain: Option<&str>,
        rule: Option<&str>,
        key: &[(Box<str>, Box<str>)],
    ) -> Result<Vec<OverridePlace>, EditError> {
        let mut places = Vec::new();
        for compiled in self.rules.domains().filter(|one| domain.is_none_or(|domain| domain == one.name())) {
            for one in
                compiled.overridable_rules().filter(|one| rule.is_none_or(|rule| *rule == *one.rule.name))
            {
                if one.limits.iter().any(|limit| key_matches(limit, key)) {
                    places.push(OverridePlace {
                        domain: compiled.name().into(),
                        rule: one.rule.name.clone(),
                        limit_name: None,
                        key: key.to_vec(),
                    });
                }
            }
        }
        let names: Vec<&str> = key.iter().map(|(name, _)| &**name).collect();
        match places.len() {
            0 => Err(EditError::Refused(
                format!(
                    "no rule has the key [{}] (hint: `tidegate check` lists the keys of all rules)",
                    names.join(", ")
                )
                .into(),
            )),
            1..=BAN_RULES_MAX => Ok(places),
            number => Err(EditError::Refused(
                format!(
                    "{number} rules have this key, more than {BAN_RULES_MAX} (hint: name a domain or a rule)"
                )
                .into(),
            )),
        }
    }

    async fn edit(
        &self,
        resolved: &ResolvedPlace<'_>,
        replaced: Replaced<'_>,
        if_version: Option<u64>,
        after: impl Fn(Option<&Override>) -> Option<Override>,
    ) -> Result<EditedOverride, EditError> {
        let (store, id) = (self.cache.store(), encode(&resolved.name)?);
        for _ in 0..ATTEMPTS_MAX {
            let entry = store.get(&id).await?;
            let version = entry.as_ref().map(|entry| entry.version);
            if let Some(expected) = if_version
                && version.map_or(0, ConfigVersion::get) != expected
            {
                return Err(EditError::Conflict(version.map(ConfigVersion::get)));
            }
            let decoded = entry.as_ref().map(current_overrides).transpose()?.flatten();
            let is_readable = decoded.is_some();
            let mut overrides = decoded.unwrap_or_default();
            let before = replaced.take_from(&mut overrides);
            let after = after(before.as_ref());
            let is_nothing = before.is_none() && after.is_none();
            if is_nothing && (is_readable || version.is_none()) {
                return Err(EditError::NotFound);
            }
            overrides.extend(after.clone());
            let value = (!overrides.is_empty()).then(|| record::encode(&overrides));
            let condition = version.map_or(WriteCondition::Absent, WriteCondition::Version);
            let write = ConfigWrite { key: id.clone(), value, condition };
            match store.write(&[write]).await?.first() {
                Some(WriteResult::Written(version)) => {
                    let stored = (!overrides.is_empty()).then(|| KeyOverrides {
                        id: id.clone(),
                        version: version.get(),
                        overrides,
                    });
                    self.cache.put_key(&resolved.name, version.get(), stored);
                    let before = before.filter(|before| !before.is_leftover());
                    let after = after.filter(|after| !after.is_leftover());
                    return Ok(EditedOverride {
                        name: resolved.name.clone(),
                        version: version.get(),
                        before,
                        after,
                    });
                }
                Some(WriteResult::Conflict(current)) if if_version.is_some() => {
                    return Err(EditError::Conflict(current.map(ConfigVersion::get)));
                }
                Some(WriteResult::Conflict(_)) | None => {}
            }
        }
        Err(EditError::Refused("other edits of this key kept coming between (hint: try again)".into()))
    }

    pub(super) fn resolve(&self, place: &OverridePlace) -> Result<ResolvedPlace<'a>, EditError> {
        let refused = |text: String| EditError::Refused(text.into());
        let Some(domain) = self.rules.domain(&place.domain) else {
            let names: Vec<&str> = self.rules.domains().map(|domain| domain.name()).collect();
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
                return Err(refused(format!("the rule `{}` has `overrides: false`", place.rule)));
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
            let counted =
                |text: &str| counted_value(part, text).map(|value| Box::<str>::from(value.as_ref()));
            let pattern = match pattern {
                ValuePattern::Exact(text) => counted(&text).map(ValuePattern::Exact),
                _ if matches!(part, KeyPart::Ip { .. }) => {
                    return Err(refused(format!(
                        "{name}={value}: an address takes no `*` (hint: match a CIDR block in a rule)"
                    )));
                }
                ValuePattern::Prefix(text) => counted(&text).map(ValuePattern::Prefix),
                ValuePattern::Suffix(text) => counted(&text).map(ValuePattern::Suffix),
            };
            let Some(pattern) = pattern else {
                return Err(refused(format!("{name}={value} is not an IP address")));
            };
            parts.push((name.into(), pattern));
        }
        if parts.iter().filter(|(_, value): &&(Box<str>, ValuePattern)| value.is_wildcard()).count() > 1 {
            return Err(refused("only one attribute of a key may have a `*`".to_owned()));
        }
        let name = KeyName { domain: domain.name().into(), rule: rule.identity.into(), parts };
        Ok(ResolvedPlace { name, rule, limits })
    }
}

impl Replaced<'_> {
    /// Removes the replaced overrides. Returns the first of them, which is the one with values if there is also a block.
    pub fn take_from(self, overrides: &mut Vec<Override>) -> Option<Override> {
        let is_block = |one: &Override| matches!(one.access, Access::Blocked(_));
        let is_replaced = |one: &mut Override| match self {
            Self::Place(place) => one.limit_name == place.limit_name,
            Self::BlockOf(place) => one.limit_name == place.limit_name && is_block(one),
            Self::AllBlocks => is_block(one),
        };
        let replaced: Vec<Override> = overrides.extract_if(.., is_replaced).collect();
        replaced.into_iter().next()
    }
}

impl ResolvedPlace<'_> {
    /// The override of a place after a change.
    pub fn changed(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        before: Option<&Override>,
        now: Timestamp,
    ) -> Override {
        Override {
            limit_name: place.limit_name.clone(),
            values: change.values,
            tier: change.tier.clone(),
            access: change.access,
            expires_at: change.expires_at,
            previous: self.previous(before, &change.values, now),
            set_at: now,
            author: change.author.clone(),
            note: change.note.clone(),
        }
    }

    /// The limits that an override of this place applies to.
    fn limits_of<'s>(&'s self, limit_name: Option<&'s str>) -> impl Iterator<Item = &'s CompiledLimit> {
        let is_meant = move |limit: &&CompiledLimit| match (limit_name, limit.id()) {
            (None, _) => true,
            (Some(name), LimitId::Name(id)) => *name == **id,
            (Some(_), LimitId::Position(_)) => false,
        };
        self.limits.iter().copied().filter(is_meant)
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
            return refused(format!("author and note have at most {TEXT_BYTES_MAX} bytes"));
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
                return refused(format!("the rule `{}` has no tiers", place.rule));
            };
            let plans: Vec<&str> = tiers.plans.iter().map(|(plan, _)| &**plan).collect();
            if !plans.contains(&&**tier) {
                return refused(format!("no tier is named `{tier}` ({})", hint(tier, &plans)));
            }
        }
        Ok(())
    }

    /// What has to stay enforced after a change from `before` to `after`, because its window is another.
    fn previous(
        &self,
        before: Option<&Override>,
        after: &OverrideValues,
        now: Timestamp,
    ) -> Vec<PreviousValues> {
        // A wildcard has many keys, each with a counter of its own in the state that the wildcard gives it.
        let leftover = before.map(|before| before.previous.clone()).unwrap_or_default();
        let mut previous: Vec<PreviousValues> = leftover.into_iter().filter(|old| now < old.until).collect();
        let active = before.filter(|before| before.is_active(now));
        let old = active.map_or_else(OverrideValues::default, |before| before.values);
        let limit_name = before.and_then(|before| before.limit_name.as_deref());
        let ends = self.limits_of(limit_name).filter_map(|base| {
            let compiled = |values: &OverrideValues| {
                values.apply_to(&base.limit().limit).ok().map(|limit| base.with_override(limit))
            };
            let (old, new) = (compiled(&old)?, compiled(after)?);
            supersede(old.main_counter(), new.main_counter(), now).map(|superseded| superseded.until)
        });
        if let Some(until) = ends.max() {
            previous.push(PreviousValues { values: old, until });
        }
        // An override that has expired a moment ago is still enforced too.
        if let Some(expired) = before.filter(|before| !before.is_active(now) && !before.values.is_empty())
            && let Some(expires_at) = expired.expires_at
        {
            let ends = self.limits_of(limit_name).filter_map(|base| {
                let old = base.with_override(expired.values.apply_to(&base.limit().limit).ok()?);
                supersede(old.main_counter(), base.main_counter(), expires_at)
                    .map(|superseded| superseded.until)
            });
            if let Some(until) = ends.max().filter(|until| now < *until) {
                previous.push(PreviousValues { values: expired.values, until });
            }
        }
        previous.sort_by_key(|previous| std::cmp::Reverse(previous.until));
        previous.truncate(PREVIOUS_MAX);
        previous
    }
}

/// The overrides that an edit changes. `None` if the record is damaged: it is replaced, which is how an operator mends it. A
/// record of a newer version is not damaged, so it is kept.
pub(super) fn current_overrides(entry: &ConfigEntry) -> Result<Option<Vec<Override>>, EditError> {
    match record::decode(&entry.key, entry.version.get(), &entry.value) {
        Ok(decoded) => Ok(Some(decoded.overrides)),
        Err(RecordError::Damaged(_)) => Ok(None),
        Err(newer @ RecordError::Newer(..)) => Err(EditError::Refused(
            format!("the override of this key was set by a newer version: {newer} (hint: edit it at a node of that version)")
                .into(),
        )),
    }
}

pub(super) fn encode(name: &KeyName) -> Result<Box<str>, EditError> {
    name.encode().map_err(|error| EditError::Refused(error.to_string().into()))
}

/// Whether the key of a limit has exactly these attributes.
fn key_matches(limit: &CompiledLimit, key: &[(Box<str>, Box<str>)]) -> bool {
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

impl From<ConfigStoreError> for EditError {
    fn from(error: ConfigStoreError) -> Self {
        match error {
            ConfigStoreError::Invalid(reason) => Self::Refused(reason),
            error => Self::Store(error),
        }
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => f.write_str(reason),
            Self::Conflict(Some(version)) => {
                write!(
                    f,
                    "the override has version {version} now (hint: read it again, then set it with that version)"
                )
            }
            Self::Conflict(None) => {
                f.write_str("there is no override of this key any more (hint: leave the version out)")
            }
            Self::NotFound => f.write_str("there is no such override"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EditError {}
