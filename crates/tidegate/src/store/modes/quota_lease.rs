//! The quota leases of one key: units that this node debited in the shared store and has not used yet.
//!
//! Pure: time is handed in. Why no limit is exceeded:
//!
//! - Units are debited before they are used, so the shared store counts each of them, whichever node uses it.
//! - A lease ends `lease_time` after it was *asked for*. The store debited it later than that. So no unit is used more
//!   than `lease_time` after the store counted it, even if the reply was slow or this node was paused: the check for the
//!   end of the lease comes with every use.
//! - A lease of a fixed window ends with the window: the store reports how long the window still lasts, and that is
//!   counted from the same early instant. So units of a window are used within it.
//!
//! Units that are not used are given back. The store then takes back at most what still counts
//! ([`ChargedAt`]), so a refund never gives more than was debited. Units of a node that was killed come back with time,
//! because they were ordinary charges.

use smallvec::SmallVec;
use tidegate_core::algorithm::PackedAlgorithm;
use tidegate_core::{Algorithm, Charge, ChargedAt, Nanos, Outcome, OutcomeKind, Timestamp, Wait};

use super::demand::Demand;

/// Units that were debited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaLease {
    /// The units that are left.
    pub units: u64,
    /// The end of its life, by this node's clock.
    pub expires: Timestamp,
    /// When it was asked for, by this node's clock.
    pub asked_at: Timestamp,
    /// When it was debited, by the store's clock.
    pub charged_at: ChargedAt,
    /// When the key will be as if never seen, by this node's clock.
    reset_at: Timestamp,
}

/// The leases of a key.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyLeases {
    /// The one that ends first comes first.
    leases: SmallVec<[QuotaLease; 2]>,
    demand: Demand,
    left_in_store: Option<LeftInStore>,
}

/// What the store said was left, and until when that is a good estimate.
#[derive(Clone, Copy, Debug)]
struct LeftInStore {
    units: u64,
    until: Timestamp,
}

/// Units that were taken from a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// An estimate of the store's time, not later than that.
    pub at: Timestamp,
    pub outcome: Outcome,
}

pub(super) type Leases = SmallVec<[QuotaLease; 2]>;

impl QuotaLease {
    /// The lease that a debit gives. `charge` has the debited units as its cost.
    pub fn new(
        charge: &Charge<'_>,
        outcome: &Outcome,
        debited: Timestamp,
        asked_at: Timestamp,
        lease_ns: u64,
    ) -> Self {
        let mut life = Nanos::new(lease_ns.into());
        if let Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) = charge.counter.algorithm() {
            life = life.min(outcome.reset_after);
        }
        Self {
            units: charge.cost,
            expires: asked_at.saturating_add(life),
            asked_at,
            // As of the debit: what has flowed into a bucket since then is not given back. A later instant, after units
            // that other leases took, would be too late if those are given back too.
            charged_at: ChargedAt::new(debited),
            reset_at: asked_at.saturating_add(outcome.reset_after),
        }
    }

    fn is_live(&self, now: Timestamp) -> bool {
        // A clock that stepped back must not extend a lease: before the request was sent, there was no lease.
        self.asked_at <= now && now < self.expires
    }
}

impl KeyLeases {
    /// Takes units, if the live leases have enough. Leases that end first are used first.
    pub fn take(&mut self, cost: u64, now: Timestamp) -> Option<Taken> {
        if self.units(now) < cost {
            return None;
        }
        let mut needed = cost;
        let mut last = None;
        for lease in self.leases.iter_mut().filter(|lease| lease.is_live(now)) {
            let used = lease.units.min(needed);
            lease.units -= used;
            needed -= used;
            last = Some(*lease);
            if needed == 0 {
                break;
            }
        }
        let lease = last?;
        let passed_ns = now.as_nanos() - lease.asked_at.as_nanos();
        let outcome = Outcome {
            kind: OutcomeKind::Allowed,
            remaining: self.units(now),
            retry_after: Wait::NONE,
            reset_after: Nanos::new(lease.reset_at.as_nanos().saturating_sub(now.as_nanos()).into()),
            delay: Nanos::ZERO,
            over: 0,
        };
        Some(Taken { at: lease.charged_at.at.saturating_add(Nanos::new(passed_ns.into())), outcome })
    }

    /// Puts units back that were taken at `taken_at`, by this node's clock. Returns false if the lease that they may be
    /// from is over.
    pub fn put_back(&mut self, units: u64, taken_at: Timestamp, now: Timestamp) -> bool {
        self.add_units(units, |lease| lease.is_live(now) && lease.asked_at <= taken_at)
    }

    /// The same for units that were charged at `charged`, by the store's clock.
    pub fn refund(&mut self, units: u64, charged: Timestamp, now: Timestamp) -> bool {
        self.add_units(units, |lease| lease.is_live(now) && lease.charged_at.at <= charged)
    }

    fn add_units(&mut self, units: u64, is_source: impl Fn(&QuotaLease) -> bool) -> bool {
        let Some(lease) = self.leases.iter_mut().find(|lease| is_source(lease)) else { return false };
        lease.units = lease.units.saturating_add(units);
        true
    }

    /// The units that can be used now.
    pub fn units(&self, now: Timestamp) -> u64 {
        self.leases.iter().filter(|lease| lease.is_live(now)).map(|lease| lease.units).sum()
    }

    /// All units, including those of leases that are over and not returned yet.
    pub fn units_held(&self) -> u64 {
        self.leases.iter().map(|lease| lease.units).sum()
    }

    /// Adds a lease.
    pub fn add(&mut self, lease: QuotaLease) {
        let index = self.leases.partition_point(|other| other.expires <= lease.expires);
        self.leases.insert(index, lease);
    }

    /// Removes leases that are over or used up. Returns those that have units left.
    pub fn remove_over(&mut self, now: Timestamp) -> Leases {
        let mut over = Leases::new();
        self.leases.retain(|lease| {
            let is_over = !lease.is_live(now);
            if is_over && lease.units > 0 {
                over.push(*lease);
            }
            !is_over && lease.units > 0
        });
        over
    }

    /// Removes all leases. Returns those that have units left.
    pub fn remove_all(&mut self) -> Leases {
        self.leases.drain(..).filter(|lease| lease.units > 0).collect()
    }

    /// When the first lease ends.
    pub fn first_end(&self) -> Option<Timestamp> {
        self.leases.first().map(|lease| lease.expires)
    }

    /// Records that units were asked for.
    pub fn record_demand(&mut self, cost: u64, now: Timestamp, lease_ns: u64) {
        self.demand.record(cost, now, period_ns(lease_ns));
    }

    /// Whether there are enough requests for a lease.
    pub fn is_in_demand(&self, now: Timestamp, lease_ns: u64) -> bool {
        self.demand.per_period(now, period_ns(lease_ns)) > 0
    }

    /// Records what the store said was left, after a call that was sent at `asked_at`.
    pub fn record_left(
        &mut self,
        charge: &Charge<'_>,
        outcome: &Outcome,
        asked_at: Timestamp,
        lease_ns: u64,
    ) {
        let mut valid = Nanos::new(lease_ns.into());
        if let Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) = charge.counter.algorithm() {
            valid = valid.min(outcome.reset_after);
        }
        self.left_in_store =
            Some(LeftInStore { units: outcome.remaining, until: asked_at.saturating_add(valid) });
    }

    /// What the store said was left, unless that was too long ago.
    pub fn left_in_store(&self, now: Timestamp) -> Option<u64> {
        self.left_in_store.filter(|left| now < left.until).map(|left| left.units)
    }

    /// The units to debit next: what half the life of a lease needs, and at most half of this node's share of what is
    /// left. So nodes that compete for the last units ask for fewer and fewer, and in the end for single ones.
    pub fn next_batch(&self, charge: &Charge<'_>, now: Timestamp, lease_ns: u64, nodes: u32) -> u64 {
        let left = self.left_in_store(now).unwrap_or_else(|| charge.counter.limit().capacity());
        self.demand.per_period(now, period_ns(lease_ns)).min(left / (2 * u64::from(nodes.max(1))))
    }
}

fn period_ns(lease_ns: u64) -> u64 {
    (lease_ns / 2).max(1)
}
