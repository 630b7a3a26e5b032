//! A limit of a rule with its counters.

use std::mem::discriminant;

use super::{Action, Elastic, ElasticSource, LimitId, Margin, RuleLimit, Signal};
use crate::migration::{LimitMigration, IdentifiedCounter, SupersededCounter};
use crate::{Counter, KeyForm, Limit, OnStoreFailure, StorePolicy, Timestamp};

/// A limit keeps at most this many superseded counters. A limit that changes more often within its window is enforced in
/// its newest version and this many earlier ones.
const SUPERSEDED_MAX: usize = 8;

/// A limit of a rule with the counters that it takes.
///
/// Most limits take one counter. A soft limit takes a hard counter, margin included, and a second one that is only observed. An
/// elastic limit with a pool takes a hard counter, `max`, and a second one for what is always granted. The hard counter has the
/// limit's own identity, so that a change of action hands out nothing.
#[derive(Clone, Debug)]
pub struct CompiledLimit {
    pub(super) limit: RuleLimit,
    /// The limit as it is written.
    pub(super) spec: Box<str>,
    /// Its name or its position in the rule.
    pub(super) id: LimitId,
    /// The identity of its counters. It stays when the limit is renamed or moved.
    pub(super) counter_id: LimitId,
    /// What else the identity of its main counter is made of: domain, rule and key.
    counter_name: Box<str>,
    /// How its charges are decided where a fleet shares a store.
    pub(super) policy: StorePolicy,
    pub(super) main: CounterVersions,
    pub(super) secondary: Option<CounterVersions>,
    /// The pool that it borrows from, by its position in the domain.
    pub(super) pool: Option<usize>,
    /// The signal that resizes it.
    pub(super) signal: Option<Signal>,
}

/// A counter, and the counters that it superseded which are still enforced.
#[derive(Clone, Debug)]
pub(super) struct CounterVersions {
    pub current: Counter,
    pub superseded: Vec<SupersededCounter>,
}

/// What the identity of a limit's counters is made of.
pub(super) struct CounterIdentity<'a> {
    pub domain: &'a str,
    pub rule: &'a str,
    /// Its part in the rule, if it is not one of the rule's limits: a candidate.
    pub part: &'a str,
    pub limit: LimitId,
    /// What the bytes of its keys are.
    pub key_form: KeyForm,
}

/// What an elastic limit grows by; nothing for other limits.
#[derive(Default)]
pub(super) struct ResolvedElastic {
    /// The pool that it borrows from, by its position in the domain.
    pub pool: Option<usize>,
    /// The signal that resizes it.
    pub signal: Option<Signal>,
}

impl CompiledLimit {
    /// The limit and how the rule applies it.
    pub fn limit(&self) -> &RuleLimit {
        &self.limit
    }

    /// Its name within the rule, or its position.
    pub fn id(&self) -> &LimitId {
        &self.id
    }

    /// The same limit with other parameters, for a key that has its own. If both count in the same way they share a counter,
    /// so what the key has used stays used.
    #[must_use]
    pub fn with_override(&self, limit: Limit) -> Self {
        let counter = Counter::with_id(&self.counter_name, &self.counter_id, limit.clone());
        let current = counter.with_key_form(self.main.current.key_form());
        Self {
            spec: limit.to_string().into(),
            limit: RuleLimit { limit, ..self.limit.clone() },
            main: CounterVersions { current, superseded: self.main.superseded.clone() },
            ..self.clone()
        }
    }

    pub(super) fn new(
        limit: RuleLimit,
        position: usize,
        identity: CounterIdentity<'_>,
        policy: StorePolicy,
        elastic: ResolvedElastic,
    ) -> Self {
        let base = &limit.limit;
        let (main, second) = match &limit.action {
            Action::Soft(Margin::Percent(percent)) => {
                (with_margin(base, *percent), Some(("soft", base.clone())))
            }
            Action::Elastic(Elastic { min, max, source: ElasticSource::Pool(_) }) => {
                (base.resized(*max), Some(("granted", base.resized(*min))))
            }
            _ => (base.clone(), None),
        };
        let name = |role: &str| {
            [identity.domain, identity.rule, &limit.key.part_names(), identity.part, role].join("\u{1f}")
        };
        let versions = |role: &str, limit: Limit| {
            let counter = Counter::with_id(&name(role), &identity.limit, limit);
            CounterVersions::new(counter.with_key_form(identity.key_form))
        };
        let (main, second) = (versions("", main), second.map(|(role, limit)| versions(role, limit)));
        let id = LimitId::from_limit(&limit.limit, position);
        let spec = limit.limit.to_string().into();
        // A limit that denies no request does not begin to when the store fails.
        let on_store_failure = match policy.on_store_failure {
            OnStoreFailure::Deny if !limit.is_enforced() => OnStoreFailure::Local,
            on_store_failure => on_store_failure,
        };
        let policy = StorePolicy { on_store_failure, ..policy };
        let counter_name = name("").into();
        let ResolvedElastic { pool, signal } = elastic;
        Self { main, secondary: second, pool, signal, id, counter_id: identity.limit, counter_name, policy, limit, spec }
    }

    /// Supersedes `old`: counters that count in another way stay enforced for a while.
    pub(super) fn supersede(&mut self, old: &Self, now: Timestamp) {
        // Under a key of other attributes nothing was counted that could be enforced.
        if self.limit.key.part_names() != old.limit.key.part_names() {
            return;
        }
        self.main.supersede(&old.main, now);
        // The second counter of a soft limit means something else than that of an elastic one.
        let is_same_action = discriminant(&self.limit.action) == discriminant(&old.limit.action);
        if let (Some(second), Some(old), true) = (&mut self.secondary, &old.secondary, is_same_action) {
            second.supersede(old, now);
        }
    }

    /// L at the current level of its signal; none if it has no signal, or no level was pushed yet.
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

    /// The current counter, and the superseded ones with the instant until which they are enforced.
    pub(super) fn versions(&self) -> impl Iterator<Item = (&Counter, Option<Timestamp>)> {
        let superseded = self.superseded.iter().map(|old| (&old.counter, Some(old.until)));
        std::iter::once((&self.current, None)).chain(superseded)
    }

    /// Supersedes `old`, which stays enforced for a while if it counts in another way.
    pub(super) fn supersede(&mut self, old: &Self, now: Timestamp) {
        let known = |counter| [IdentifiedCounter { identity: (), counter }];
        let (before, after) = (known(&old.current), known(&self.current));
        let change = LimitMigration { old: &before, new: &after, superseded: &old.superseded, now };
        self.superseded = change.superseded();
        self.superseded.truncate(SUPERSEDED_MAX);
    }
}

/// The limit with this many percent more, rounded down, but at least one unit more.
fn with_margin(limit: &Limit, percent: u32) -> Limit {
    let units = limit.rate().limit();
    let more = u128::from(units) * u128::from(percent) / 100;
    let more = u64::try_from(more).unwrap_or(u64::MAX).max(u64::from(units > 0));
    limit.resized(units.saturating_add(more))
}
