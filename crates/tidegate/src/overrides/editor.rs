//! Sets, deletes and lists overrides. What cannot work is refused, with a hint.
//!
//! An edit reads the record of the key, changes it, and writes it back on the condition that no other edit came between. If one
//! did, the edit starts over, unless the operator named the version to edit.

use tidegate_core::Timestamp;
use tidegate_core::rules::{Access, KeyOverrides, Override, Ruleset};

use super::cache::OverrideCache;
use super::edit_error::EditError;
use super::key_name::KeyName;
use super::place::{
    AppliedValues, OverrideChange, OverridePlace, ReplacedOverride, ResolvedPlace, key_matches,
};
use super::record::{self, OVERRIDES_MAX};
use super::wildcards::WILDCARDS_MAX;
use crate::config::{
    ConfigEntry, ConfigVersion, ConfigWrite, RecordError, Scan, WriteCondition, WriteResult,
};

/// How often an edit starts over.
const ATTEMPTS_MAX: usize = 8;
/// The most rules that one call bans a key in.
pub const BAN_RULES_MAX: usize = 1_000;

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
    /// The blocks of the key that were there before and stay.
    pub kept_blocks: Vec<Override>,
    /// Whether the record before the edit was damaged. All that it had is gone.
    pub was_damaged: bool,
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
    pub(super) rules: &'a Ruleset,
}

/// The overrides of a key that an edit replaces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Replaced<'a> {
    /// That of this place which is no block.
    Override(&'a OverridePlace),
    /// The block of this place.
    Block(&'a OverridePlace),
    /// That of this place which is no block. If it has none, its block.
    OverrideOrBlock(&'a OverridePlace),
    /// The blocks of all places.
    AllBlocks,
}

impl<'a> OverrideEditor<'a> {
    /// Edits the overrides behind `cache`. They must fit `rules`.
    pub fn new(cache: &'a OverrideCache, rules: &'a Ruleset) -> Self {
        Self { cache, rules }
    }

    /// Sets an override. It replaces the one that the place had. A block is beside the other override of a key: it replaces
    /// only another block, and stays if another override is set. With `if_version`, only if the overrides of the key have this
    /// version; 0 means that there are none.
    pub async fn set(
        &self,
        place: &OverridePlace,
        change: &OverrideChange,
        if_version: Option<u64>,
        now: Timestamp,
    ) -> Result<EditedOverride, EditError> {
        let resolved = ResolvedPlace::resolve(self.rules, place)?;
        resolved.check(place, change, now)?;
        let inherited = self.inherited(&resolved.name, place, now);
        let after = |before: Option<&Override>| {
            let replaced = ReplacedOverride { before, inherited: inherited.clone() };
            Some(resolved.changed(place, change, &replaced, now))
        };
        self.edit(&resolved, Replaced::by(place, change), if_version, after).await
    }

    /// Removes all blocks of a key, and keeps its other overrides. A damaged record is kept: what else it had is not known.
    pub async fn unblock(&self, place: &OverridePlace) -> Result<EditedOverride, EditError> {
        let resolved = ResolvedPlace::resolve(self.rules, place)?;
        self.edit(&resolved, Replaced::AllBlocks, None, |_| None).await
    }

    /// Deletes an override, or the block if the key has no other override. A window that it had stays enforced for a while. Of
    /// a damaged record, deletes all.
    pub async fn delete(
        &self,
        place: &OverridePlace,
        if_version: Option<u64>,
        now: Timestamp,
    ) -> Result<EditedOverride, EditError> {
        let resolved = ResolvedPlace::resolve(self.rules, place)?;
        let inherited = self.inherited(&resolved.name, place, now);
        let after = |before: Option<&Override>| {
            let before = Some(before.filter(|before| !before.is_block())?);
            let replaced = ReplacedOverride { before, inherited: inherited.clone() };
            let previous = resolved.previous(&replaced, &inherited.clone().unwrap_or_default(), now);
            let until = previous.iter().map(|previous| previous.until).max()?;
            // It says only what is still enforced, and ends with it.
            Some(Override {
                limit_name: place.limit_name.clone(),
                expires_at: Some(until),
                previous,
                set_at: now,
                ..Override::default()
            })
        };
        let edited = self.edit(&resolved, Replaced::OverrideOrBlock(place), if_version, after).await?;
        if edited.before.is_none() && !edited.was_damaged { Err(EditError::NotFound) } else { Ok(edited) }
    }

    /// The overrides of a key, for all of its limits.
    pub async fn get(&self, place: &OverridePlace) -> Result<Option<(KeyName, KeyOverrides)>, EditError> {
        let ResolvedPlace { name, .. } = ResolvedPlace::resolve(self.rules, place)?;
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

    /// What applies to a key without its own override: that of the wildcard that it matches.
    pub(super) fn inherited(
        &self,
        name: &KeyName,
        place: &OverridePlace,
        now: Timestamp,
    ) -> Option<AppliedValues> {
        let wildcards = self.cache.wildcards_of(name);
        let mut inherited = wildcards.iter().filter_map(|entry| {
            let applies = |one: &&Override| one.is_active(now) && !one.is_block();
            let named = entry.overrides.iter().filter(applies).find(|one| one.limit_name == place.limit_name);
            named.or_else(|| entry.overrides.iter().filter(applies).find(|one| one.limit_name.is_none()))
        });
        inherited.next().map_or_else(|| Some(AppliedValues::default()), AppliedValues::of)
    }

    async fn edit(
        &self,
        resolved: &ResolvedPlace<'_>,
        replaced: Replaced<'_>,
        if_version: Option<u64>,
        after: impl Fn(Option<&Override>) -> Option<Override>,
    ) -> Result<EditedOverride, EditError> {
        let (store, id) = (self.cache.store(), encode(&resolved.name)?);
        if replaced.adds() && !self.cache.has_room_for(&resolved.name, &id, 0) {
            return Err(too_many_wildcards());
        }
        for _ in 0..ATTEMPTS_MAX {
            let entry = store.get(&id).await?;
            let version = entry.as_ref().map(|entry| entry.version);
            if let Some(expected) = if_version
                && version.map_or(0, ConfigVersion::get) != expected
            {
                return Err(EditError::Conflict(version.map(ConfigVersion::get)));
            }
            let decoded = entry.as_ref().map(current_overrides).transpose()?.flatten();
            let was_damaged = version.is_some() && decoded.is_none();
            if was_damaged && matches!(replaced, Replaced::AllBlocks) {
                return Err(damaged());
            }
            let mut overrides = decoded.unwrap_or_default();
            let before = replaced.take_from(&mut overrides);
            let after = after(before.as_ref());
            let is_nothing = before.is_none() && after.is_none();
            if is_nothing && !was_damaged {
                return Err(EditError::NotFound);
            }
            let kept_blocks = kept_blocks(&overrides);
            overrides.extend(after.clone());
            if overrides.len() > OVERRIDES_MAX {
                return Err(too_many_overrides());
            }
            let value = (!overrides.is_empty()).then(|| record::encode(&overrides));
            let condition = version.map_or(WriteCondition::Absent, WriteCondition::Version);
            let write = ConfigWrite { key: id.clone(), value, condition };
            match store.write(&[write]).await?.first() {
                Some(WriteResult::Written(version)) => {
                    let stored = (!overrides.is_empty()).then_some(overrides);
                    self.cache.put_key(&resolved.name, version.get(), stored);
                    let before = before.filter(|before| !before.is_leftover());
                    let after = after.filter(|after| !after.is_leftover());
                    return Ok(EditedOverride {
                        name: resolved.name.clone(),
                        version: version.get(),
                        before,
                        after,
                        kept_blocks,
                        was_damaged,
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
}

impl<'a> Replaced<'a> {
    /// What a change of this place replaces.
    pub fn by(place: &'a OverridePlace, change: &OverrideChange) -> Self {
        match change.access {
            Access::Blocked(_) => Self::Block(place),
            Access::Limited | Access::Allowed | Access::Unlimited => Self::Override(place),
        }
    }

    /// Whether an override may come in place of what is replaced.
    fn adds(self) -> bool {
        matches!(self, Self::Override(_) | Self::Block(_))
    }

    /// Removes the replaced overrides. Returns the first of them.
    pub fn take_from(self, overrides: &mut Vec<Override>) -> Option<Override> {
        let has_override = |place: &OverridePlace, overrides: &[Override]| {
            let is_it = |one: &Override| one.limit_name == place.limit_name && !one.is_block();
            overrides.iter().any(|one| is_it(one) && !one.is_leftover())
        };
        let this = match self {
            Self::OverrideOrBlock(place) if has_override(place, overrides) => Self::Override(place),
            Self::OverrideOrBlock(place) => Self::Block(place),
            this => this,
        };
        let is_replaced = |one: &mut Override| match this {
            Self::Override(place) => one.limit_name == place.limit_name && !one.is_block(),
            Self::Block(place) | Self::OverrideOrBlock(place) => {
                one.limit_name == place.limit_name && one.is_block()
            }
            Self::AllBlocks => one.is_block(),
        };
        let replaced: Vec<Override> = overrides.extract_if(.., is_replaced).collect();
        replaced.into_iter().next()
    }
}

/// The blocks among the overrides that an edit keeps.
pub(super) fn kept_blocks(kept: &[Override]) -> Vec<Override> {
    kept.iter().filter(|one| one.is_block()).cloned().collect()
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

/// Only the blocks of a key were to be removed, and nothing says which overrides it has.
fn damaged() -> EditError {
    let reason = "the record of this key is damaged, so it blocks nothing and nothing can be taken out of it (hint: `tidegate override \
                  delete` deletes it, and `override set` replaces it)";
    EditError::Refused(reason.into())
}

/// Nodes use no more wildcards than this, so another one would have no effect.
pub(super) fn too_many_wildcards() -> EditError {
    let reason = format!(
        "there are {WILDCARDS_MAX} wildcards already, and no more are used (hint: put them into the rules, or delete some)"
    );
    EditError::Refused(reason.into())
}

/// A longer record would not be read again.
pub(super) fn too_many_overrides() -> EditError {
    let reason = format!(
        "the key has {OVERRIDES_MAX} overrides already (hint: set one without the name of a limit, or delete some)"
    );
    EditError::Refused(reason.into())
}

pub(super) fn encode(name: &KeyName) -> Result<Box<str>, EditError> {
    name.encode().map_err(|error| EditError::Refused(error.to_string().into()))
}
