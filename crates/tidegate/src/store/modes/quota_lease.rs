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
    /// The units that were debited. Never less than `units`.
    debited: u64,
    /// The end of its life, by this node's clock.
    pub expires: Timestamp,
    /// When it was asked for, by this node's clock. No two leases of a key have the same instant.
    pub asked_at: Timestamp,
    /// When the reply came, by this node's clock.
    answered_at: Timestamp,
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
    /// When units of a lease that is gone may last have been used.
    gone_until: Timestamp,
}

/// What the store said was left, and until when that is a good estimate.
#[derive(Clone, Copy, Debug)]
struct LeftInStore {
    units: u64,
    until: Timestamp,
}

/// Units that were taken from leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// An estimate of the store's time, not later than that.
    pub at: Timestamp,
    pub outcome: Outcome,
    /// What was taken, as if all of it came from the lease that ends first.
    pub source: Option<QuotaLease>,
}

/// When a debit was asked for and answered, by this node's clock, and made, by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DebitTimes {
    pub asked: Timestamp,
    pub debited: Timestamp,
    pub answered: Timestamp,
}

pub(super) type Leases = SmallVec<[QuotaLease; 2]>;

impl QuotaLease {
    /// The lease that a debit gives. `charge` has the debited units as its cost.
    pub fn new(charge: &Charge<'_>, outcome: &Outcome, times: DebitTimes, lease_ns: u64) -> Self {
        let DebitTimes { asked: asked_at, debited, answered: answered_at } = times;
        let mut life = Nanos::new(lease_ns.into());
        if let Algorithm::Packed(PackedAlgorithm::FixedWindow(_)) = charge.counter.algorithm() {
            life = life.min(outcome.reset_after);
        }
        Self {
            units: charge.cost,
            debited: charge.cost,
            expires: asked_at.saturating_add(life),
            asked_at,
            answered_at,
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

    /// An instant of the store's clock, not later than `now`: the store had debited the lease when its reply came.
    fn store_time(&self, now: Timestamp) -> Timestamp {
        let passed_ns = now.as_nanos().saturating_sub(self.answered_at.as_nanos());
        self.charged_at.at.saturating_add(Nanos::new(passed_ns.into()))
    }

    /// An instant of the store's clock, not earlier than `now`: the store debited the lease after it was asked to.
    fn store_time_max(&self, now: Timestamp) -> Timestamp {
        let passed_ns = now.as_nanos().saturating_sub(self.asked_at.as_nanos());
        self.charged_at.at.saturating_add(Nanos::new(passed_ns.into()))
    }

    /// Adds units that were used. Returns false if more would be left than were debited.
    fn add_used(&mut self, units: u64) -> bool {
        let units = self.units.saturating_add(units);
        if units > self.debited {
            return false;
        }
        self.units = units;
        true
    }
}

impl KeyLeases {
    /// Takes units, if the live leases have enough. Leases that end first are used first.
    pub fn take(&mut self, cost: u64, now: Timestamp) -> Option<Taken> {
        if self.units(now) < cost {
            return None;
        }
        let (mut needed, mut source, mut last) = (cost, None, None);
        for lease in self.leases.iter_mut().filter(|lease| lease.is_live(now)) {
            let used = lease.units.min(needed);
            lease.units -= used;
            needed -= used;
            if used > 0 {
                source.get_or_insert(QuotaLease { units: cost, debited: cost, ..*lease });
            }
            last = Some(*lease);
            if needed == 0 {
                break;
            }
        }
        let lease = last?;
        let outcome = Outcome {
            kind: OutcomeKind::Allowed,
            remaining: self.units(now),
            retry_after: Wait::NONE,
            reset_after: Nanos::new(lease.reset_at.as_nanos().saturating_sub(now.as_nanos()).into()),
            delay: Nanos::ZERO,
            over: 0,
        };
        Some(Taken { at: source.unwrap_or(lease).store_time(now), outcome, source })
    }

    /// Puts units back that were taken from a lease. Returns false if it is over.
    pub fn put_back(&mut self, taken: &QuotaLease, now: Timestamp) -> bool {
        if !taken.is_live(now) {
            return false;
        }
        match self.leases.iter_mut().find(|lease| lease.asked_at == taken.asked_at) {
            Some(lease) => lease.add_used(taken.units),
            None => {
                self.add(*taken);
                true
            }
        }
    }

    /// Puts units back that were charged at `charged`, by the store's clock, or shortly after. Returns false if they may be
    /// of a lease that is gone: they would be used later than `lease_time` after their debit.
    pub fn refund(&mut self, units: u64, charged: Timestamp, now: Timestamp) -> bool {
        let gone_until = self.gone_until;
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.is_live(now)) else { return false };
        let is_after_debit = lease.charged_at.at <= charged;
        let is_after_others = gone_until < lease.asked_at || lease.store_time_max(gone_until) < charged;
        is_after_debit && is_after_others && lease.add_used(units)
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
            // Not `is_live`: a request that waited may have an older time than the last lease.
            let is_kept = now < lease.expires && lease.units > 0;
            if !is_kept {
                self.gone_until = self.gone_until.max(now);
                over.extend((lease.units > 0).then_some(*lease));
            }
            is_kept
        });
        over
    }

    /// Removes all leases. Returns those that have units left.
    pub fn remove_all(&mut self, now: Timestamp) -> Leases {
        if !self.leases.is_empty() {
            self.gone_until = self.gone_until.max(now);
        }
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

    /// The units to debit next: what half the life of a lease needs, and at most half of this node's share of what is left. So
    /// nodes that compete for the last units ask for fewer and fewer, and in the end for single ones. With a whole share, some
    /// percent of a small window are still leased when it ends.
    pub fn next_batch(&self, charge: &Charge<'_>, now: Timestamp, lease_ns: u64, nodes: u32) -> u64 {
        let left = self.left_in_store(now).unwrap_or_else(|| charge.counter.limit().capacity());
        self.demand.per_period(now, period_ns(lease_ns)).min(left / (2 * u64::from(nodes.max(1))))
    }
}

fn period_ns(lease_ns: u64) -> u64 {
    (lease_ns / 2).max(1)
}
