//! The plan: what one request charges, as data.
//!
//! A plan is data, not closures, because the memory store interprets it in Rust and Redis interprets it in Lua.

use std::fmt;

use smallvec::SmallVec;

use crate::{Algorithm, Counter, StorePolicy};

/// The most charges in one plan. Redis runs a plan in one call of a script, which bounds the keys of a call.
pub const PLAN_CHARGES_MAX: usize = 1_024;

/// All charges of one request. A store makes every charge or none: all of them if every [enforced](Role::Enforced)
/// charge fits.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    charges: SmallVec<[Charge<'a>; 4]>,
}

/// One charge of a plan: a cost, for a key, on a counter.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The key to charge.
    pub key: &'a [u8],
    /// The counter.
    pub counter: &'a Counter,
    /// The units to charge.
    pub cost: u64,
    /// Whether the charge is enforced or only observed.
    pub role: Role,
    /// How the charge is decided where a fleet shares a store.
    pub policy: StorePolicy,
}

impl<'a> Charge<'a> {
    /// An enforced charge with the default policy.
    #[inline]
    pub const fn new(key: &'a [u8], counter: &'a Counter, cost: u64) -> Self {
        Self { key, counter, cost, role: Role::Enforced, policy: StorePolicy::DEFAULT }
    }
}

/// Whether a charge takes part in the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// The request passes only if this charge fits.
    #[default]
    Enforced,
    /// The charge is only counted. If the request passes, it is charged whether it fits or not, and it never denies the
    /// request, delays it, or limits the ttl of a lease. A bucket that it does not fit is emptied and gets no debt:
    /// otherwise a dry run would report denials for hours after a flood.
    Observed,
}

/// The plan has no room for another charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanFull;

impl<'a> Plan<'a> {
    /// A plan without charges.
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

    /// Adds a charge and returns its index in the plan. If the plan already has a charge for the same key and counter,
    /// the costs are added up, and the charge is enforced if either is.
    pub fn add(&mut self, charge: Charge<'a>) -> Result<usize, PlanFull> {
        let is_same =
            |other: &Charge<'_>| other.counter.id() == charge.counter.id() && other.key == charge.key;
        if let Some(index) = self.charges.iter().position(is_same) {
            let merged = &mut self.charges[index];
            merged.cost = merged.cost.saturating_add(charge.cost);
            // Two plans of a tier may share a counter. The sum has to fit the tighter one.
            if charge.counter.limit().rate().limit() < merged.counter.limit().rate().limit() {
                merged.counter = charge.counter;
            }
            if charge.role == Role::Enforced {
                merged.role = Role::Enforced;
            }
            merged.policy = merged.policy.stricter(charge.policy);
            return Ok(index);
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

    /// Whether a charge holds units until they are released.
    pub fn has_leases(&self) -> bool {
        self.charges.iter().any(|charge| matches!(charge.counter.algorithm(), Algorithm::Leases(_)))
    }

    /// The charges that take part in the decision.
    pub fn enforced(&self) -> impl Iterator<Item = &Charge<'a>> {
        self.charges.iter().filter(|charge| charge.role == Role::Enforced)
    }
}

impl fmt::Display for PlanFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request falls under too many limits; let fewer rules match it")
    }
}

impl std::error::Error for PlanFull {}
