//! The state of a concurrency limit: who holds how much, and until when.
//!
//! Leases stand in the order in which they expire, and nothing sweeps them: whoever looks steps over those whose
//! time is over, and whoever writes drops them. A lease is known by its [`Grant`], which says where it stands, so
//! finding it is a binary search; only who does not know that it was renewed makes us look at all of them.

use std::collections::VecDeque;
use std::fmt;

use crate::Timestamp;

/// A number that grows with every lease of a key, so that what is protected can tell an old holder from a newer
/// one: it remembers the highest number it has seen and refuses any lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number.
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What tells a lease from every other of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The first instant at which it is over.
    pub expires: Timestamp,
    /// Its number.
    pub fence: Fence,
}

/// Units in flight for one key. `Default` is a key never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// By grant: the first to expire first.
    held: VecDeque<LeaseEntry>,
    /// The sum of all that is in `held`: however much a limit in the shadow is charged, it does not overflow.
    units: u128,
    last_fence: Fence,
    /// The latest instant at which anything was written. This key's time does not step back behind it.
    written: Timestamp,
}

/// Units that are held until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseEntry {
    /// Which lease it is.
    pub grant: Grant,
    /// What it holds, at least one.
    pub units: u64,
}

/// Why entries make no leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasesError {
    /// A grant is not later than the one before it.
    OutOfOrder,
    /// A lease holds nothing.
    NoUnits,
    /// A lease has a higher fence than the last that was handed out.
    FenceTooHigh,
}

const NANOS_PER_MICRO: u64 = 1_000;

impl Leases {
    /// The leases of these entries, which decide as those that they are from did.
    pub fn from_entries(
        written: Timestamp,
        last_fence: Fence,
        entries: impl IntoIterator<Item = LeaseEntry>,
    ) -> Result<Self, LeasesError> {
        let mut leases = Self { last_fence, written, ..Self::default() };
        for entry in entries {
            if leases.held.back().is_some_and(|last| last.grant >= entry.grant) {
                return Err(LeasesError::OutOfOrder);
            }
            if entry.units == 0 {
                return Err(LeasesError::NoUnits);
            }
            if entry.grant.fence > last_fence {
                return Err(LeasesError::FenceTooHigh);
            }
            leases.units += u128::from(entry.units);
            leases.held.push_back(entry);
        }
        Ok(leases)
    }

    /// Every lease that is kept, the first to expire first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = LeaseEntry> {
        self.held.iter().copied()
    }

    /// The leases that stand behind `after`, the first to expire first; all of them if there is none. Finding the
    /// first takes a binary search, and `after` need not be there any more.
    pub fn entries_after(&self, after: Option<Grant>) -> impl ExactSizeIterator<Item = LeaseEntry> {
        let first = after.map_or(0, |after| self.held.partition_point(|lease| lease.grant <= after));
        self.held.range(first..).copied()
    }

    /// The highest number that was handed out.
    pub fn last_fence(&self) -> Fence {
        self.last_fence
    }

    /// The latest instant at which anything was written.
    pub fn written(&self) -> Timestamp {
        self.written
    }

    /// Leases kept, those included that are over and were not dropped yet.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no lease is kept.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Units of all leases that are kept.
    pub fn units(&self) -> u64 {
        u64::try_from(self.units).unwrap_or(u64::MAX)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.held.capacity() * size_of::<LeaseEntry>()
    }

    /// The instant that counts for a caller whose clock shows `now`.
    #[inline]
    pub fn instant(&self, now: Timestamp) -> Timestamp {
        self.written.max(now)
    }

    /// The number of the next lease: the time in microseconds, so that numbers grow even if this state is lost,
    /// and more than the last one, so that they grow within a microsecond.
    pub fn next_fence(&self, now: Timestamp) -> Fence {
        Fence(self.last_fence.0.saturating_add(1).max(self.instant(now).as_nanos() / NANOS_PER_MICRO))
    }

    /// Units whose lease is not over.
    pub fn units_at(&self, now: Timestamp) -> u64 {
        u64::try_from(self.live_at(self.instant(now))).unwrap_or(u64::MAX)
    }

    /// When so many leases will have ended by themselves that no more than `left` units are held; none if no more are.
    ///
    /// Looks from the end that is nearer: a limit that is enforced is over by little, and one that looks on may be over
    /// by any number of leases.
    pub(crate) fn falls_to(&self, left: u64, now: Timestamp) -> Option<Timestamp> {
        let instant = self.instant(now);
        let is_live = |lease: &&LeaseEntry| lease.grant.expires > instant;
        let (left, live) = (u128::from(left), self.live_at(instant));
        let excess = live.checked_sub(left).filter(|excess| *excess > 0)?;
        let mut passed = 0_u128;
        let mut passes = |lease: &&LeaseEntry, most: u128| {
            passed += u128::from(lease.units);
            passed > most
        };
        let last_to_end = if excess <= left {
            self.held.iter().filter(is_live).find(|lease| passes(lease, excess - 1))
        } else {
            self.held.iter().rev().find(|lease| passes(lease, left))
        };
        last_to_end.map(|lease| lease.grant.expires)
    }

    /// The first instant at which all leases are over and the next fence is the time again.
    pub(crate) fn ends(&self) -> Timestamp {
        let fence_is_past = self.last_fence.0.saturating_add(1).saturating_mul(NANOS_PER_MICRO);
        let fence_is_past = Timestamp::from_nanos(if self.last_fence.0 == 0 { 0 } else { fence_is_past });
        self.held.back().map_or(fence_is_past, |last| last.grant.expires.max(fence_is_past))
    }

    /// Hands out `units`.
    pub fn hold(&mut self, grant: Grant, units: u64, now: Timestamp) {
        self.settle(now);
        let place = self.held.partition_point(|lease| lease.grant < grant);
        self.held.insert(place, LeaseEntry { grant, units });
        self.units += u128::from(units);
        self.last_fence = self.last_fence.max(grant.fence);
    }

    /// Takes back what `grant` holds: the units, or none if it holds nothing any more.
    pub fn release(&mut self, grant: Grant, now: Timestamp) -> Option<u64> {
        self.settle(now);
        let at = self.find(grant)?;
        let lease = self.held.remove(at)?;
        self.units -= u128::from(lease.units);
        Some(lease.units)
    }

    /// Lets the lease of `grant` last until `expires`: its new grant, or none if it holds nothing any more.
    pub fn renew(&mut self, grant: Grant, expires: Timestamp, now: Timestamp) -> Option<Grant> {
        let units = self.release(grant, now)?;
        let renewed = Grant { expires, ..grant };
        self.hold(renewed, units, now);
        Some(renewed)
    }

    /// Leases with one lease in place of all, for questions about their sum and their end.
    pub(crate) fn summed_up(&self, now: Timestamp) -> Self {
        let units = self.units_at(now);
        let last = self.held.back().filter(|_| units > 0);
        let held = last.map(|last| LeaseEntry { units, ..*last }).into_iter().collect();
        Self { held, units: u128::from(units), ..*self }
    }

    /// Where the lease is that was handed out with this fence.
    fn find(&self, grant: Grant) -> Option<usize> {
        let by_grant = self.held.binary_search_by_key(&grant, |lease| lease.grant).ok();
        by_grant.or_else(|| self.held.iter().position(|lease| lease.grant.fence == grant.fence))
    }

    fn live_at(&self, instant: Timestamp) -> u128 {
        let over: u128 = self.over_at(instant).map(|lease| u128::from(lease.units)).sum();
        self.units - over
    }

    fn over_at(&self, instant: Timestamp) -> impl Iterator<Item = &LeaseEntry> {
        self.held.iter().take_while(move |lease| lease.grant.expires <= instant)
    }

    /// Moves this key's time on, and drops what is over.
    fn settle(&mut self, now: Timestamp) {
        self.written = self.instant(now);
        while let Some(first) = self.held.front()
            && first.grant.expires <= self.written
        {
            self.units -= u128::from(first.units);
            self.held.pop_front();
        }
    }
}

impl LeasesError {
    /// What is wrong with them.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "leases are not in the order in which they expire",
            Self::NoUnits => "a lease holds nothing",
            Self::FenceTooHigh => "a lease has a higher fence than was handed out",
        }
    }
}

impl fmt::Display for LeasesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for LeasesError {}
