//! A compiled limit: a limit of a rule with its counters.
//!
//! Most limits have one counter. Two actions need more:
//!
//! - `soft` has a hard counter for L plus the margin, and a secondary counter for L that is only observed.
//! - `elastic` with a pool has a hard counter for `max`, a secondary counter for `min`, which is always granted, and
//!   the pool. The pool is charged, in a second plan, only if the secondary counter has nothing left. Other requests
//!   may come between the two plans. At worst a request then borrows from the pool although it did not need to.
//!
//! The hard counter has the limit's own identity, so after a change of action no more is admitted than the new hard
//! limit leaves. A limit with a signal is resized for each request and finds the same state.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::mem::discriminant;

use super::{
    Action, Elastic, ElasticSource, Margin, Overridable, OverrideScope, OverrideValues, RuleLimit, Signal,
};
use crate::headers::{Policy, PolicyName};
use crate::migration::{IdentifiedCounter, LimitMigration, SupersededCounter};
use crate::{Counter, KeyForm, Limit, LimitError, LimitId, OnStoreFailure, RuleMode, StorePolicy, Timestamp};

/// The most superseded counters of a limit. If a limit changes more often within its window, its newest version and
/// this many earlier ones are enforced.
const SUPERSEDED_MAX: usize = 8;

/// A limit of a rule with its counters.
#[derive(Clone, Debug)]
pub struct CompiledLimit {
    pub(super) limit: RuleLimit,
    /// The limit as it is written.
    pub(super) spec: Box<str>,
    /// Its name for Envoy, which puts it between quotes in headers of its clients.
    pub(super) public_name: Box<str>,
    /// Its parts of headers, if it is a limit of a rule.
    pub(super) header_texts: Option<HeaderTexts>,
    /// Its name or its position in the rule.
    pub(super) id: LimitId,
    /// The identity of its counters. It does not change when the limit is renamed or moved.
    pub(super) counter_id: LimitId,
    /// The rest of the identity of its main counter: domain, rule and key.
    pub(super) counter_name: Box<str>,
    /// How its charges are decided where nodes share a store.
    pub(super) policy: StorePolicy,
    /// The mode of its rule, from which limits of single keys get theirs.
    rule_mode: RuleMode,
    pub(super) main: CounterVersions,
    pub(super) secondary: Option<CounterVersions>,
    /// The pool that it borrows from, by position in the domain.
    pub(super) pool: Option<usize>,
    /// The signal that resizes it.
    pub(super) signal: Option<Signal>,
    /// The scope of the overrides of its keys, if they may have any.
    pub(super) scope: Option<OverrideScope>,
    /// Whether the numbers of an override that names no limit apply to it. Not if its rule has several limits with the same
    /// key, because it is not known which of them is meant.
    pub(super) takes_unnamed_values: bool,
    /// Whether it would deny requests if there were no dry run of all rules.
    pub(super) is_global_shadow: bool,
}

/// The parts of headers that are the same in all answers of a limit. Many answers repeat them, so they are made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTexts {
    /// Its name as a string of a structured field: `"login/per-ip"`.
    pub quoted_name: Box<str>,
    /// Its policy: `"login/per-ip";q=100;w=60`.
    pub policy: Box<str>,
}

/// A counter, and the superseded counters that are still enforced beside it.
#[derive(Clone, Debug)]
pub(super) struct CounterVersions {
    pub current: Counter,
    pub superseded: Vec<SupersededCounter>,
}

/// The parts of the identity of a limit's counters.
pub(super) struct CounterIdentity<'a> {
    pub domain: &'a str,
    pub rule: &'a str,
    /// Set if the limit is not one of the rule's limits: a candidate, for example.
    pub part: &'a str,
    pub limit: LimitId,
    /// The form of its keys.
    pub key_form: KeyForm,
}

/// The pool or signal of an elastic limit. Empty for other limits.
#[derive(Default)]
pub(super) struct ResolvedElastic {
    /// The pool that it borrows from, by position in the domain.
    pub pool: Option<usize>,
    /// The signal that resizes it.
    pub signal: Option<Signal>,
}

impl HeaderTexts {
    /// Those of a limit with this name.
    fn new(quoted_name: &str, id: &LimitId, limit: &Limit) -> Self {
        let mut policy = quoted_name.to_owned();
        // The name is in the text already.
        let name = PolicyName::new("", id);
        Policy { name, limit, quota: limit.rate().limit() }.push_values_to(&mut policy);
        Self { quoted_name: quoted_name.into(), policy: policy.into() }
    }
}

impl CompiledLimit {
    /// The limit and how the rule applies it.
    pub fn limit(&self) -> &RuleLimit {
        &self.limit
    }

    /// The counter that decides.
    pub fn main_counter(&self) -> &Counter {
        &self.main.current
    }

    /// Its name within the rule, or its position.
    pub fn id(&self) -> &LimitId {
        &self.id
    }

    /// The identity of its counters within its rule, the same in all plans of the rule.
    pub fn counter_identity(&self) -> &LimitId {
        &self.counter_id
    }

    /// The same limit with the values of an override, for a key that has its own. If the state format is the same, both
    /// share a counter, and used units stay used. The values also apply to the superseded counters: those of the rule were
    /// never enforced for the key.
    pub fn with_override(&self, values: &OverrideValues) -> Result<Self, LimitError> {
        let limit = values.apply_to(&self.limit.limit)?;
        let action = &self.limit.action;
        let (main, secondary) = counted_limits(&limit, action);
        let main_of = |old: &Limit| {
            // The old limit has its margin already, but the L of the override has none.
            let limit = values.apply_to(old)?;
            Ok(if values.limit.is_some() { counted_limits(&limit, action).0 } else { limit })
        };
        let secondary = secondary.zip(self.secondary.as_ref()).map(|((role, limit), old)| {
            self.overridden_versions(role, limit, old, |old: &Limit| values.apply_to(old))
        });
        let policy = StorePolicy { mode: self.rule_mode.for_limit(&limit), ..self.policy };
        let header_texts = self.header_texts.as_ref();
        let header_texts = header_texts.map(|texts| HeaderTexts::new(&texts.quoted_name, &self.id, &limit));
        Ok(Self {
            spec: limit.to_string().into(),
            policy,
            main: self.overridden_versions("", main, &self.main, main_of),
            secondary,
            limit: RuleLimit { limit, ..self.limit.clone() },
            header_texts,
            ..self.clone()
        })
    }

    fn overridden_versions(
        &self,
        role: &str,
        limit: Limit,
        old: &CounterVersions,
        overridden: impl Fn(&Limit) -> Result<Limit, LimitError>,
    ) -> CounterVersions {
        let name = format!("{}{role}", self.counter_name);
        let counter = |limit: Limit| {
            Counter::with_id(&name, &self.counter_id, limit).with_key_form(self.main.current.key_form())
        };
        let superseded = old.superseded.iter().map(|old| match overridden(old.counter.limit()) {
            Ok(limit) => SupersededCounter { counter: counter(limit), until: old.until },
            // The override did not fit the old limit, so it did not apply.
            Err(_) => old.clone(),
        });
        let mut versions = CounterVersions { current: counter(limit), superseded: superseded.collect() };
        versions.remove_repeated();
        versions
    }

    /// The same limit, with further counters enforced beside its main counter.
    pub(super) fn with_superseded(&self, superseded: Vec<SupersededCounter>) -> Self {
        let mut limit = self.clone();
        limit.main.superseded.extend(superseded);
        limit.main.remove_repeated();
        limit
    }

    /// Lets its keys have overrides, if it has a key.
    pub(super) fn with_overrides(self, domain: &str, rule: &str, overridable: Overridable) -> Self {
        let names: Vec<String> = self.limit.key.parts().iter().map(ToString::to_string).collect();
        let may_have = overridable == Overridable::Yes && !names.is_empty();
        let scope = may_have.then(|| OverrideScope::new(domain, rule, names.iter().map(String::as_str)));
        Self { scope, ..self }
    }

    pub(super) fn new(
        limit: RuleLimit,
        position: usize,
        identity: CounterIdentity<'_>,
        policy: StorePolicy,
        elastic: ResolvedElastic,
    ) -> Self {
        let base = &limit.limit;
        let (main, secondary) = counted_limits(base, &limit.action);
        let name = |role: &str| {
            [identity.domain, identity.rule, &limit.key.part_names(), identity.part, role].join("\u{1f}")
        };
        let versions = |role: &str, limit: Limit| {
            let counter = Counter::with_id(&name(role), &identity.limit, limit);
            CounterVersions::new(counter.with_key_form(identity.key_form))
        };
        let (main, secondary) = (versions("", main), secondary.map(|(role, limit)| versions(role, limit)));
        let id = LimitId::from_limit(&limit.limit, position);
        let spec = limit.limit.to_string().into();
        // A limit that never denies a request must not start to when the store fails.
        let on_store_failure = match policy.on_store_failure {
            OnStoreFailure::Deny if !limit.is_enforced() => OnStoreFailure::Local,
            on_store_failure => on_store_failure,
        };
        let policy = StorePolicy { on_store_failure, ..policy };
        let counter_name = name("").into();
        let ResolvedElastic { pool, signal } = elastic;
        Self {
            main,
            secondary,
            pool,
            signal,
            id,
            counter_id: identity.limit,
            counter_name,
            policy,
            rule_mode: policy.mode.into(),
            limit,
            spec,
            scope: None,
            takes_unnamed_values: false,
            is_global_shadow: false,
            public_name: Box::default(),
            header_texts: None,
        }
    }

    /// Adds the mode of its rule.
    pub(super) fn with_mode(self, rule_mode: RuleMode) -> Self {
        let policy = StorePolicy { mode: rule_mode.for_limit(&self.limit.limit), ..self.policy };
        Self { policy, rule_mode, ..self }
    }

    /// Adds what a limit of a rule has.
    pub(super) fn with_names(mut self, rule: &str, public_name: Box<str>) -> Self {
        let mut quoted_name = String::new();
        PolicyName::new(rule, &self.id).push_quoted_to(&mut quoted_name);
        self.header_texts = Some(HeaderTexts::new(&quoted_name, &self.id, &self.limit.limit));
        Self { public_name, ..self }
    }

    /// A limit in a dry run of all rules. It reports the requests that it would deny if it was enforced.
    pub(super) fn shadow(
        limit: &RuleLimit,
        position: usize,
        identity: CounterIdentity<'_>,
        policy: StorePolicy,
    ) -> Self {
        let base = match &limit.action {
            Action::Soft(Margin::Percent(percent)) => with_margin(&limit.limit, *percent),
            Action::Elastic(Elastic { max, .. }) => limit.limit.resized(*max),
            _ => limit.limit.clone(),
        };
        // A limit that never denies keeps its action.
        let is_global_shadow = limit.is_enforced() || matches!(limit.action, Action::Quota);
        let action = if limit.is_enforced() { Action::Shadow } else { limit.action.clone() };
        let shadow = RuleLimit { limit: base, action, ..limit.clone() };
        let compiled = Self::new(shadow, position, identity, policy, ResolvedElastic::default());
        Self { is_global_shadow, ..compiled }
    }

    /// Supersedes `old`: counters with another state format stay enforced for a while.
    pub(super) fn supersede(&mut self, old: &Self, now: Timestamp) {
        // With a key of other attributes, the old counts mean something else.
        if self.limit.key.part_names() != old.limit.key.part_names() {
            return;
        }
        self.main.supersede(&old.main, now);
        // The secondary counters of soft and elastic limits have different meanings.
        let is_same_action = discriminant(&self.limit.action) == discriminant(&old.limit.action);
        if let (Some(secondary), Some(old), true) = (&mut self.secondary, &old.secondary, is_same_action) {
            secondary.supersede(old, now);
        }
    }

    /// L at the current level of its signal. `None` if it has no signal, or no level was pushed yet.
    pub(super) fn resized_by_signal(&self) -> Option<u64> {
        let Action::Elastic(Elastic { min, max, .. }) = self.limit.action else { return None };
        let level = self.signal.as_ref()?.level()?;
        Some(level.interpolate(min, max))
    }
}

impl CounterVersions {
    /// A counter that superseded no other.
    pub(super) fn new(current: Counter) -> Self {
        Self { current, superseded: Vec::new() }
    }

    /// The current counter, and the superseded counters with the instants until which they are enforced.
    pub(super) fn versions(&self) -> impl Iterator<Item = (&Counter, Option<Timestamp>)> {
        let superseded = self.superseded.iter().map(|old| (&old.counter, Some(old.until)));
        std::iter::once((&self.current, None)).chain(superseded)
    }

    /// Supersedes `old`, which stays enforced for a while if its state format is different.
    pub(super) fn supersede(&mut self, old: &Self, now: Timestamp) {
        let identified = |counter| [IdentifiedCounter { identity: (), counter }];
        let (before, after) = (identified(&old.current), identified(&self.current));
        let migration = LimitMigration { old: &before, new: &after, superseded: &old.superseded, now };
        self.superseded = migration.superseded();
        self.superseded.truncate(SUPERSEDED_MAX);
    }

    /// Removes superseded counters that are listed twice, or are the current one: a plan would charge them twice. The one
    /// that ends last stays.
    fn remove_repeated(&mut self) {
        self.superseded.sort_by_key(|old| Reverse(old.until));
        let mut seen = BTreeSet::from([self.current.id()]);
        self.superseded.retain(|old| seen.insert(old.counter.id()));
    }
}

/// The limits that the main counter and the secondary counter count by. The latter has a role in its name.
fn counted_limits(base: &Limit, action: &Action) -> (Limit, Option<(&'static str, Limit)>) {
    match action {
        Action::Soft(Margin::Percent(percent)) => (with_margin(base, *percent), Some(("soft", base.clone()))),
        Action::Elastic(Elastic { min, max, source: ElasticSource::Pool(_) }) => {
            (base.resized(*max), Some(("granted", base.resized(*min))))
        }
        _ => (base.clone(), None),
    }
}

/// The limit plus this many percent, rounded down, but at least one unit more.
pub(super) fn with_margin(limit: &Limit, percent: u32) -> Limit {
    let units = limit.rate().limit();
    let more = u128::from(units) * u128::from(percent) / 100;
    let more = u64::try_from(more).unwrap_or(u64::MAX).max(u64::from(units > 0));
    limit.resized(units.saturating_add(more))
}
