//! The plan: what one request touches, as data.
//!
//! Data and not closures, because the same plan is interpreted in Rust by the memory store and in Lua inside
//! Redis.

use std::fmt;
use std::hash::Hasher;
use std::num::NonZeroU32;

use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

use crate::algorithm::PackedAlgorithm;
use crate::{Algorithm, Limit, LimitId};

/// The most charges in one plan. A request that matches more rules than this is a mistake in the rules.
pub const PLAN_CHARGES_MAX: usize = 64;

/// Names a counter apart from the key it counts for: a rule's limit, and what its state means.
///
/// Stable across processes, platforms and versions, for stored state is found by it. L and burst are not part
/// of it, so changing them keeps every count; the algorithm, W and n are, so a state is never read as something
/// it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(u64);

impl CounterId {
    /// The number itself.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A limit that counts: the limit and the identity of its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    id: CounterId,
    limit: Limit,
    key_form: KeyForm,
}

/// What the bytes of a counter's keys are, for those who would show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// What a caller gave as a key.
    #[default]
    Plain,
    /// Values by rules, which [`key_values`](crate::key_values) takes apart.
    Values,
    /// Values that may be secrets. They are nobody else's business.
    Secret,
}

impl Counter {
    /// The counter of `limit` at `place` in `rule`. A limit with a name is known by it wherever it stands.
    pub fn new(rule: &str, place: usize, limit: Limit) -> Self {
        Self::with_id(rule, &LimitId::from_limit(&limit, place), limit)
    }

    /// The counter of `limit`, which in `rule` is known as `id`, whatever its name and place are now.
    pub fn with_id(rule: &str, id: &LimitId, limit: Limit) -> Self {
        let mut hasher = SipHasher13::new();
        let mut write = |field: &[u8]| {
            hasher.write(&(field.len() as u64).to_le_bytes());
            hasher.write(field);
        };
        write(rule.as_bytes());
        match id {
            LimitId::Name(name) => write(name.as_bytes()),
            LimitId::Position(place) => write(&(*place as u64).to_le_bytes()),
        }
        write(limit.state_format().as_bytes());
        Self { id: CounterId(hasher.finish()), limit, key_form: KeyForm::Plain }
    }

    /// The counter of a `gcra` limit that is known by its rule alone, so that a key has one arrival time whatever L, W
    /// and burst it is asked with; none for another algorithm.
    ///
    /// That is sound because the state of `gcra` is an instant, which means the same under every rate. What is kept
    /// below one nanosecond is in 1/L, and read under another L it is still less than one nanosecond.
    pub fn shared_gcra(rule: &str, limit: Limit) -> Option<Self> {
        let Algorithm::Packed(PackedAlgorithm::Gcra(_)) = limit.algorithm() else { return None };
        let mut hasher = SipHasher13::new();
        hasher.write(&(rule.len() as u64).to_le_bytes());
        hasher.write(rule.as_bytes());
        hasher.write(b"gcra");
        Some(Self { id: CounterId(hasher.finish()), limit, key_form: KeyForm::Plain })
    }

    /// The same counter with another L, for as long as something else says so.
    #[must_use]
    pub fn resized(&self, limit: u64) -> Self {
        Self { limit: self.limit.resized(limit), ..*self }
    }

    /// The same counter with keys of this form.
    #[must_use]
    pub fn with_key_form(self, key_form: KeyForm) -> Self {
        Self { key_form, ..self }
    }

    /// What the bytes of its keys are.
    #[inline]
    pub fn key_form(&self) -> KeyForm {
        self.key_form
    }

    /// The same counter with the share of one of so many processes.
    #[must_use]
    pub fn node_share(&self, nodes: NonZeroU32) -> Self {
        Self { id: self.id, limit: self.limit.node_share(nodes), key_form: self.key_form }
    }

    /// The identity of its counters.
    #[inline]
    pub fn id(&self) -> CounterId {
        self.id
    }

    /// The limit.
    #[inline]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// How the limit counts.
    #[inline]
    pub fn algorithm(&self) -> &Algorithm {
        self.limit.algorithm()
    }
}

/// One line of a plan: this much, for this key, on this counter.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// Which of the counter's keys.
    pub key: &'a [u8],
    /// The counter.
    pub counter: &'a Counter,
    /// Units.
    pub cost: u64,
    /// Whether it has a say in what becomes of the request.
    pub role: Role,
    /// How it is decided where a fleet shares a store.
    pub policy: StorePolicy,
}

impl<'a> Charge<'a> {
    /// An enforced charge with the default policy.
    #[inline]
    pub const fn new(key: &'a [u8], counter: &'a Counter, cost: u64) -> Self {
        Self { key, counter, cost, role: Role::Enforced, policy: StorePolicy::DEFAULT }
    }
}

/// How a charge is decided where a fleet shares a store. A store that is not shared ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorePolicy {
    /// Where the charge is counted.
    pub mode: Mode,
    /// What becomes of it while the shared store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// Whether it may be denied from memory.
    pub deny_cache: DenyCache,
}

/// Where a charge is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// In the shared store, for every decision.
    #[default]
    Strict,
    /// In this process: each process has the whole limit.
    Local,
}

/// What becomes of a limit while the store that a fleet shares does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// This process enforces its share of the limit: a limit of 100 is one of 25 for each of four nodes.
    #[default]
    Local,
    /// The limit is left out, so that it limits nothing.
    Allow,
    /// Requests that fall under it are denied as unavailable. A limit that denies no request is counted as with `Local`.
    Deny,
}

/// Whether denials may come from memory while it is known that the shared store would deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DenyCache {
    /// They may.
    #[default]
    On,
    /// The store is asked every time.
    Off,
}

impl StorePolicy {
    /// Strict, with this process's share of the limit while the store does not answer.
    pub const DEFAULT: Self =
        Self { mode: Mode::Strict, on_store_failure: OnStoreFailure::Local, deny_cache: DenyCache::On };

    /// The policy of a charge that is made for two limits: the more careful of both.
    fn stricter(self, other: Self) -> Self {
        let on_store_failure = match (self.on_store_failure, other.on_store_failure) {
            (OnStoreFailure::Deny, _) | (_, OnStoreFailure::Deny) => OnStoreFailure::Deny,
            (OnStoreFailure::Local, _) | (_, OnStoreFailure::Local) => OnStoreFailure::Local,
            (OnStoreFailure::Allow, OnStoreFailure::Allow) => OnStoreFailure::Allow,
        };
        let mode = if self.mode == Mode::Strict { self.mode } else { other.mode };
        let deny_cache = if self.deny_cache == DenyCache::Off { self.deny_cache } else { other.deny_cache };
        Self { mode, on_store_failure, deny_cache }
    }
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl OnStoreFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Local, Self::Allow, Self::Deny];

    /// As it is written in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Whether a charge has a say in what becomes of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The request passes only if this charge fits.
    #[default]
    Enforced,
    /// Looks on: it is made if the request passes, whether it fits or not, and never keeps the request from passing.
    /// A bucket that it does not fit is emptied by it and runs into no debt.
    Observed,
}

/// All that one request touches. Every charge is made or none: all of them if all that are
/// [enforced](Role::Enforced) fit.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    charges: SmallVec<[Charge<'a>; 4]>,
}

/// A plan holds [`PLAN_CHARGES_MAX`] charges and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanFull;

impl<'a> Plan<'a> {
    /// A plan that touches nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A plan of one charge.
    #[inline]
    pub fn of_one(charge: Charge<'a>) -> Self {
        let mut charges = SmallVec::new();
        charges.push(charge);
        Self { charges }
    }

    /// Adds a charge. The same key on the same counter twice is one charge with the costs summed, enforced if either
    /// is. Says where in the plan it is.
    pub fn add(&mut self, charge: Charge<'a>) -> Result<usize, PlanFull> {
        let same = |held: &Charge<'_>| held.counter.id == charge.counter.id && held.key == charge.key;
        if let Some(place) = self.charges.iter().position(same) {
            let held = &mut self.charges[place];
            held.cost = held.cost.saturating_add(charge.cost);
            // Of two plans of a tier with one counter, the sum has to fit the tighter one.
            if charge.counter.limit.rate().limit() < held.counter.limit.rate().limit() {
                held.counter = charge.counter;
            }
            if charge.role == Role::Enforced {
                held.role = Role::Enforced;
            }
            held.policy = held.policy.stricter(charge.policy);
            return Ok(place);
        }
        if self.charges.len() == PLAN_CHARGES_MAX {
            return Err(PlanFull);
        }
        self.charges.push(charge);
        Ok(self.charges.len() - 1)
    }

    /// The charges, in the order they were first added.
    #[inline]
    pub fn charges(&self) -> &[Charge<'a>] {
        &self.charges
    }

    /// The charges that have a say in what becomes of the request.
    pub fn enforced(&self) -> impl Iterator<Item = &Charge<'a>> {
        self.charges.iter().filter(|charge| charge.role == Role::Enforced)
    }
}

impl fmt::Display for PlanFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request may touch {PLAN_CHARGES_MAX} limits at most; let fewer rules match it")
    }
}

impl std::error::Error for PlanFull {}
