//! Overrides: what a rule does differently for one key, or for keys that match a wildcard.
//!
//! An override is data that an operator sets while the server runs, not a line in a file. This file has its parts and says
//! which of several overrides applies. `apply_overrides.rs` applies them to the limits of a request.
//!
//! The order, for one limit and one key:
//!
//! 1. A block, wherever it stands, unless the override of exactly this key says [`Access::Allowed`].
//! 2. The override of exactly this key.
//! 3. The wildcard with the most literal characters.
//! 4. The rule.
//!
//! An override that names a limit goes before one that applies to all limits of the rule.
//!
//! # Windows
//!
//! A change of L or burst finds the state that the key had. A change of W or of the number of sub-windows starts another
//! counter, and would hand out a fresh window. So the old counter stays enforced beside the new one for the shorter of the two
//! windows, as after a change in a file: `previous` has the old values, and an expired override is enforced for that long after
//! its end. The same holds if another plan of the rule applies, which may have other windows.
//!
//! The old values are those that applied to the key: of the override, else of the wildcard that it matched, else of the rule. A
//! key's other wildcards are not counted for it, so they leave no window behind.

use std::hash::Hasher as _;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

use super::compiled_limit::CompiledLimit;
use super::override_list::OverrideList;
use super::{Action, Descriptor, LimitPosition, Ruleset};
use crate::migration::{SupersededCounter, supersede};
use crate::{Limit, LimitError, LimitId, Timestamp};

/// Identifies the limits whose keys may share overrides: domain, rule, and the attributes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverrideScope(u64);

/// The numbers that an override sets. What is `None` stays as the rule has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OverrideValues {
    /// L.
    pub limit: Option<u64>,
    /// W, in nanoseconds.
    pub per_ns: Option<u64>,
    /// B.
    pub burst: Option<u64>,
    /// n.
    pub sub_windows: Option<u64>,
}

/// Whether a key is limited at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// By its limits.
    #[default]
    Limited,
    /// By its limits, and blocks of wildcards do not apply.
    Allowed,
    /// Not at all.
    Unlimited,
    /// It is denied.
    Blocked(BlockStatus),
}

/// The HTTP status of a request that is blocked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockStatus {
    /// 429.
    #[default]
    TooManyRequests,
    /// 403.
    Forbidden,
}

/// An override.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Override {
    /// The limit that it applies to. If `None`, all limits of the rule with this key.
    pub limit_name: Option<Box<str>>,
    /// The numbers.
    pub values: OverrideValues,
    /// The plan of the rule whose limits apply.
    pub tier: Option<Box<str>>,
    /// Whether the key is limited.
    pub access: Access,
    /// The first instant at which it no longer applies.
    pub expires_at: Option<Timestamp>,
    /// What applied before, while it is still enforced.
    pub previous: Vec<PreviousValues>,
    /// When it was set.
    pub set_at: Timestamp,
    /// The operator who set it.
    pub author: Option<Box<str>>,
    /// Why it was set.
    pub note: Option<Box<str>>,
}

/// Values that were replaced and had another window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreviousValues {
    /// The values.
    pub values: OverrideValues,
    /// The plan whose limits had them, if another plan applied then.
    pub tier: Option<PreviousTier>,
    /// The first instant at which they are no longer enforced.
    pub until: Timestamp,
}

/// A plan of a rule that applied before another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreviousTier {
    /// Its name. If `None`, the plan that the attributes of the request say.
    pub name: Option<Box<str>>,
    /// When it ceased to apply. Which windows it had may depend on the request, so [`PreviousValues::until`] is the latest end of
    /// all plans.
    pub changed_at: Timestamp,
}

/// The overrides of one key, or of one wildcard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOverrides {
    /// Its key in the config store.
    pub id: Box<str>,
    /// Its version there.
    pub version: u64,
    /// For each limit name at most one block, and one override besides, which applies again when the block ends.
    pub overrides: Vec<Override>,
}

/// The overrides of a key or a wildcard, as decisions use them.
#[derive(Clone, Debug)]
pub struct FoundEntry {
    /// As in [`KeyOverrides`].
    pub overrides: Arc<OverrideList>,
    /// The version in the config store.
    pub version: u64,
    /// The key of a wildcard in the config store. `None` if these are the overrides of exactly the key.
    pub wildcard: Option<Arc<str>>,
}

/// The overrides that a key matches.
#[derive(Clone, Debug, Default)]
pub struct FoundOverrides {
    /// Of exactly this key.
    pub exact: Option<FoundEntry>,
    /// Of wildcards, those with the most literal characters first.
    pub wildcards: Vec<FoundEntry>,
}

/// What is known about the overrides of a key.
#[derive(Clone, Debug)]
pub enum OverrideLookup {
    /// It has none.
    None,
    /// It has these.
    Found(FoundOverrides),
    /// Those of exactly this key have to be loaded. Carries those of wildcards, and those of the key that are known if they have
    /// changed since they were read.
    NotLoaded(FoundOverrides),
}

/// A key that may have overrides.
#[derive(Clone, Copy, Debug)]
pub struct OverrideTarget<'a> {
    /// Domain, rule and the attributes of the key.
    pub scope: OverrideScope,
    /// The values of the key, encoded.
    pub key: &'a [u8],
    /// A limit with this scope.
    pub position: LimitPosition,
}

/// Finds the overrides of keys, without waiting.
pub trait OverrideSource {
    /// Whether a key may have overrides. Most keys have none, so most decisions ask nothing else.
    fn may_have(&self, target: OverrideTarget<'_>) -> Option<OverrideHint>;

    /// The overrides of exactly this key, if they are known and no wildcard matches it. If `None`, [`find`](Self::find) says
    /// more.
    fn find_alone(&self, _target: OverrideTarget<'_>, _hint: OverrideHint) -> Option<FoundEntry> {
        None
    }

    /// The overrides of a key that may have some. The target must come from these rules, and the key from the descriptor.
    fn find(
        &self,
        rules: &Ruleset,
        target: OverrideTarget<'_>,
        hint: OverrideHint,
        descriptor: &Descriptor<'_>,
    ) -> OverrideLookup;
}

/// What a source already knows about a key that may have overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverrideHint {
    /// A hash of the key, if exactly this key may have overrides. If `None`, only wildcards may match it.
    pub exact: Option<u64>,
}

/// An override that applied to a limit.
#[derive(Clone, Debug)]
pub struct AppliedOverride {
    /// The overrides of the key or wildcard.
    pub entry: FoundEntry,
    /// The index of the one that applied.
    pub index: usize,
    /// The limit that it applied to.
    pub position: LimitPosition,
    /// The key of the request, encoded.
    pub key: SmallVec<[u8; APPLIED_KEY_BYTES]>,
}

/// Keys of up to this many bytes are kept without an allocation.
const APPLIED_KEY_BYTES: usize = 40;
/// A leap year.
const YEAR_NS: u64 = 366 * 24 * 3_600 * 1_000_000_000;

/// A limit that applies to a key now, for finding the counters that it supersedes.
#[derive(Clone, Copy)]
pub(super) struct SupersedingLimit<'a> {
    /// As the rule has it.
    pub base: &'a CompiledLimit,
    /// As it applies.
    pub current: &'a CompiledLimit,
    /// The override that applies to it.
    pub applicable: Option<Applicable>,
    /// The same limit in a plan of the rule. `None` stands for the plan that the attributes of the request say.
    pub in_tier: &'a dyn Fn(Option<&str>) -> Option<&'a CompiledLimit>,
}

/// Which of the overrides that were found applies to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applicable {
    source: EntrySource,
    pub index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntrySource {
    Exact,
    /// The wildcard at this position.
    Wildcard(usize),
}

impl OverrideScope {
    /// The scope of a rule, by its oldest name, and of the attributes of a key, in the order of the rule's key.
    pub fn new<'a>(domain: &'a str, rule: &'a str, attributes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = SipHasher13::new();
        for name in [domain, rule].into_iter().chain(attributes) {
            hasher.write(&(name.len() as u64).to_le_bytes());
            hasher.write(name.as_bytes());
        }
        Self(hasher.finish())
    }

    /// The number itself.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl OverrideValues {
    /// Whether it sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limit with these values. A burst or queue that is as large as L, which is the default, stays as large as L.
    pub fn apply_to(&self, limit: &Limit) -> Result<Limit, LimitError> {
        let mut spec = limit.spec();
        let units = spec.limit;
        if let Some(limit) = self.limit {
            spec.limit = limit;
            spec.burst = spec.burst.filter(|burst| *burst != units && limit > 0);
            spec.queue = spec.queue.filter(|queue| *queue != units && limit > 0);
        }
        spec.per_ns = self.per_ns.unwrap_or(spec.per_ns);
        spec.burst = self.burst.or(spec.burst);
        spec.sub_windows = self.sub_windows.or(spec.sub_windows);
        spec.build()
    }
}

impl BlockStatus {
    /// The number.
    pub const fn code(self) -> u16 {
        match self {
            Self::TooManyRequests => 429,
            Self::Forbidden => 403,
        }
    }
}

impl Override {
    /// Whether it applies at `now`.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at) && !self.is_leftover()
    }

    /// Whether no decision uses it from `now` on. After it has expired, a window that it had stays enforced for the shorter of
    /// this window and that of the rule. If its window is not known, it is taken for a year.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        let Self { values, tier, expires_at, previous, .. } = self;
        let changes_window = values.per_ns.is_some() || values.sub_windows.is_some() || tier.is_some();
        let enforced_ns = match values.per_ns {
            _ if !changes_window || self.is_block() => 0,
            Some(per_ns) => per_ns,
            None => YEAR_NS,
        };
        let is_over =
            |until: Timestamp, after_ns: u64| until.as_nanos().saturating_add(after_ns) <= now.as_nanos();
        expires_at.is_some_and(|at| is_over(at, enforced_ns))
            && previous.iter().all(|one| is_over(one.until, 0))
    }

    /// Whether it sets numbers and nothing else, for all limits, and always did.
    pub(super) fn is_plain(&self) -> bool {
        let Self { limit_name, values, tier, access, expires_at, previous, .. } = self;
        limit_name.is_none()
            && tier.is_none()
            && *access == Access::Limited
            && expires_at.is_none()
            && previous.is_empty()
            && !values.is_empty()
    }

    /// Whether it sets nothing itself, and only keeps values enforced that applied before.
    pub fn is_leftover(&self) -> bool {
        self.values.is_empty() && self.tier.is_none() && self.access == Access::Limited
    }

    /// Whether it blocks its key.
    pub fn is_block(&self) -> bool {
        matches!(self.access, Access::Blocked(_))
    }

    fn applies_to(&self, id: &LimitId) -> bool {
        match (&self.limit_name, id) {
            (None, _) => true,
            (Some(name), LimitId::Name(id)) => **name == **id,
            (Some(_), LimitId::Position(_)) => false,
        }
    }
}

impl FoundEntry {
    /// The index of the override for a limit that satisfies `filter`. One that names the limit goes first.
    #[inline]
    fn index_for(&self, id: &LimitId, filter: impl Fn(&Override) -> bool) -> Option<usize> {
        let mut found = None;
        for (index, candidate) in self.overrides.iter().enumerate() {
            if candidate.applies_to(id) && filter(candidate) {
                if candidate.limit_name.is_some() {
                    return Some(index);
                }
                found = found.or(Some(index));
            }
        }
        found
    }
}

impl FoundOverrides {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_none() && self.wildcards.is_empty()
    }

    /// The override that applies to a limit at `now`.
    pub(super) fn applicable(&self, id: &LimitId, now: Timestamp) -> Option<Applicable> {
        let block = |entry: &FoundEntry| entry.index_for(id, |one| one.is_block() && one.is_active(now));
        let active = |entry: &FoundEntry| entry.index_for(id, |one| one.is_active(now));
        let exact = self.exact.as_ref().and_then(|entry| block(entry).or_else(|| active(entry)));
        let exact = exact.map(|index| Applicable { source: EntrySource::Exact, index });
        if self.wildcards.is_empty() {
            return exact;
        }
        let of_wildcards = |find: &dyn Fn(&FoundEntry) -> Option<usize>| {
            self.wildcards.iter().enumerate().find_map(|(position, entry)| {
                Some(Applicable { source: EntrySource::Wildcard(position), index: find(entry)? })
            })
        };
        let is_decided = exact.is_some_and(|exact| {
            let one = self.get(exact);
            one.access == Access::Allowed || one.is_block()
        });
        let block = if is_decided { None } else { of_wildcards(&block) };
        block.or(exact).or_else(|| of_wildcards(&active))
    }

    /// One of the overrides.
    pub(super) fn get(&self, applicable: Applicable) -> &Override {
        &self.entry(applicable.source).overrides[applicable.index]
    }

    /// The overrides that one of them is in.
    pub(super) fn entry_of(&self, applicable: Applicable) -> &FoundEntry {
        self.entry(applicable.source)
    }

    fn entry(&self, source: EntrySource) -> &FoundEntry {
        match (source, &self.exact) {
            (EntrySource::Exact, Some(exact)) => exact,
            (EntrySource::Exact, None) => unreachable!("only an exact override that was found is applicable"),
            (EntrySource::Wildcard(position), _) => &self.wildcards[position],
        }
    }

    /// The counters that are still enforced beside the limit that now applies, because overrides of this key had another
    /// window: those of the override that applies now, and of those that ended and had precedence over it.
    pub(super) fn superseded(&self, limit: SupersedingLimit<'_>, now: Timestamp) -> Vec<SupersededCounter> {
        let mut superseded = Vec::new();
        let exact = self.exact.iter().map(|entry| (EntrySource::Exact, entry));
        let wildcards = (0..).map(EntrySource::Wildcard).zip(&self.wildcards);
        for (source, entry) in exact.chain(wildcards) {
            for (index, one) in entry.overrides.iter().enumerate() {
                let applies_now = limit.applicable == Some(Applicable { source, index });
                let has_ended = !one.is_active(now);
                if one.applies_to(&limit.base.id) && !one.is_block() && (applies_now || has_ended) {
                    limit.add_superseded(one, now, &mut superseded);
                }
            }
            if limit.applicable.is_some_and(|applicable| applicable.source == source) {
                break;
            }
        }
        superseded
    }
}

impl<'a> SupersedingLimit<'a> {
    /// Adds the counters of the values that an override replaced, and of its own if it has expired.
    fn add_superseded(&self, one: &Override, now: Timestamp, superseded: &mut Vec<SupersededCounter>) {
        for PreviousValues { values, tier, until } in &one.previous {
            if now < *until {
                let (base, from) = match tier {
                    None => (Some(self.base), None),
                    Some(tier) => ((self.in_tier)(tier.name.as_deref()), Some(tier.changed_at)),
                };
                let old = base.and_then(|base| self.supersede(base, one, values, from.unwrap_or(now)));
                superseded.extend(old.map(|old| {
                    let until = if from.is_some() { old.until.min(*until) } else { *until };
                    SupersededCounter { until, ..old }
                }));
            }
        }
        // Nothing was counted for a key that was unlimited.
        let had_values = !one.is_leftover() && one.access != Access::Unlimited;
        // Enforced for no longer than the window that applies now. This is cheaper to find out than the counter.
        let has_just_expired = |expires_at: &Timestamp| {
            let window_ns = self.current.limit.limit.window_ns_at(*expires_at);
            *expires_at <= now && now.as_nanos() - expires_at.as_nanos() < window_ns
        };
        if let Some(expires_at) = one.expires_at.filter(|at| had_values && has_just_expired(at)) {
            let base = match &one.tier {
                None => Some(self.base),
                Some(tier) => (self.in_tier)(Some(tier)),
            };
            superseded.extend(base.and_then(|base| self.supersede(base, one, &one.values, expires_at)));
        }
        superseded.retain(|old| old.is_enforced(now));
    }

    /// The counter of a limit with these values, if the limit that applies now has another one.
    fn supersede(
        &self,
        base: &'a CompiledLimit,
        one: &Override,
        values: &OverrideValues,
        ended_at: Timestamp,
    ) -> Option<SupersededCounter> {
        let values = if base.takes_values_of(one) { *values } else { OverrideValues::default() };
        let old = base.with_override(&values).ok()?;
        supersede(&old.main.current, &self.current.main.current, ended_at)
    }
}

impl AppliedOverride {
    /// The override.
    pub fn get(&self) -> &Override {
        &self.entry.overrides[self.index]
    }
}

impl CompiledLimit {
    /// Whether the numbers of this limit can be overridden. Those of an elastic limit move by themselves.
    pub fn has_overridable_values(&self) -> bool {
        !matches!(self.limit.action, Action::Elastic(_))
    }

    /// Whether an override that names no limit does not apply its numbers to this one, because other limits of the rule have
    /// the same key.
    pub fn is_one_of_several(&self) -> bool {
        self.has_overridable_values() && !self.takes_unnamed_values
    }

    /// Whether the numbers of an override apply to this limit. When the override was set they did; the rule may have changed.
    pub(super) fn takes_values_of(&self, one: &Override) -> bool {
        match one.limit_name {
            Some(_) => self.has_overridable_values(),
            None => self.takes_unnamed_values,
        }
    }
}
