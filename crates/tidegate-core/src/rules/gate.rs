//! A limit of a rule with its counters.

use std::mem::discriminant;

use super::{Action, Elastic, ElasticBy, LimitId, Margin, RuleLimit, Signal};
use crate::succession::{Change, Known, Retiring};
use crate::{Counter, KeyForm, Limit, Timestamp};

/// A limit that is changed more often than this within its window is enforced as it was last and so many times before.
const RETIRING_MAX: usize = 8;

/// A limit of a rule with the counters that it takes.
///
/// Most take one. A soft limit is a hard one, margin included, with one beside it that looks on. An elastic limit
/// that draws on a pool is a hard one, `max`, with one beside it for what is always granted. The hard one is known by
/// the limit's own identity, so that a change of action hands out nothing.
#[derive(Clone, Debug)]
pub struct Gate {
    pub(super) limit: RuleLimit,
    /// The limit as it is written.
    pub(super) spec: Box<str>,
    /// What it is called: its name or its place.
    pub(super) id: LimitId,
    /// What its counters are known by.
    pub(super) known_by: LimitId,
    pub(super) main: Lineage,
    pub(super) beside: Option<Lineage>,
    /// The pool it draws on.
    pub(super) pool: Option<usize>,
    /// The signal it moves with.
    pub(super) signal: Option<Signal>,
}

/// A counter, and those it took the place of which are enforced for a while.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    pub current: Counter,
    pub retiring: Vec<Retiring>,
}

/// What the counters of a gate are known by.
pub(super) struct Identity<'a> {
    pub domain: &'a str,
    pub rule: &'a str,
    /// What it is to the rule, where that is not one of its limits.
    pub part: &'a str,
    pub limit: LimitId,
    /// What the bytes of their keys are.
    pub keys: KeyForm,
}

impl Gate {
    /// The limit and how the rule applies it.
    pub fn limit(&self) -> &RuleLimit {
        &self.limit
    }

    /// What it is called within its rule: its name, or its place.
    pub fn id(&self) -> &LimitId {
        &self.id
    }

    pub(super) fn new(
        limit: RuleLimit,
        place: usize,
        identity: Identity<'_>,
        pool: Option<usize>,
        signal: Option<Signal>,
    ) -> Self {
        let base = &limit.limit;
        let (main, beside) = match &limit.action {
            Action::Soft(Margin::Percent(percent)) => {
                (with_margin(base, *percent), Some(("soft", base.clone())))
            }
            Action::Elastic(Elastic { min, max, by: ElasticBy::Pool(_) }) => {
                (base.resized(*max), Some(("granted", base.resized(*min))))
            }
            _ => (base.clone(), None),
        };
        let known_by = |role: &str| {
            [identity.domain, identity.rule, &limit.key.names(), identity.part, role].join("\u{1f}")
        };
        let lineage = |role: &str, limit: Limit| {
            let counter = Counter::known_as(&known_by(role), &identity.limit, limit);
            Lineage::new(counter.with_keys(identity.keys))
        };
        let (main, beside) = (lineage("", main), beside.map(|(role, limit)| lineage(role, limit)));
        let id = LimitId::of(&limit.limit, place);
        let spec = limit.limit.to_string().into();
        Self { main, beside, pool, signal, id, known_by: identity.limit, limit, spec }
    }

    /// Takes the place of `old`: what it counted in another way is enforced for a while.
    pub(super) fn succeed(&mut self, old: &Self, now: Timestamp) {
        // Under a key of other attributes nothing was counted that could be enforced.
        if self.limit.key.names() != old.limit.key.names() {
            return;
        }
        self.main.succeed(&old.main, now);
        // What stands beside a soft limit is another thing than what stands beside an elastic one.
        let is_same_kind = discriminant(&self.limit.action) == discriminant(&old.limit.action);
        if let (Some(beside), Some(old), true) = (&mut self.beside, &old.beside, is_same_kind) {
            beside.succeed(old, now);
        }
    }

    /// L at the level that its signal is at; none if it does not move, or is where it was written.
    pub(super) fn units_now(&self) -> Option<u64> {
        let Action::Elastic(Elastic { min, max, .. }) = self.limit.action else { return None };
        let level = self.signal.as_ref()?.level()?;
        Some(level.between(min, max))
    }
}

impl Lineage {
    /// A counter that took nobody's place.
    pub(super) fn new(current: Counter) -> Self {
        Self { current, retiring: Vec::new() }
    }

    /// Takes the place of `old`, which is enforced for a while if it counted in another way.
    pub(super) fn succeed(&mut self, old: &Self, now: Timestamp) {
        let known = |counter| [Known { identity: (), counter }];
        let (before, after) = (known(&old.current), known(&self.current));
        let change = Change { old: &before, new: &after, retiring: &old.retiring, now };
        self.retiring = change.retiring();
        self.retiring.truncate(RETIRING_MAX);
    }
}

/// The limit with so many percent more, rounded down, but one unit at least.
fn with_margin(limit: &Limit, percent: u32) -> Limit {
    let units = limit.rate().limit();
    let more = u128::from(units) * u128::from(percent) / 100;
    let more = u64::try_from(more).unwrap_or(u64::MAX).max(u64::from(units > 0));
    limit.resized(units.saturating_add(more))
}
