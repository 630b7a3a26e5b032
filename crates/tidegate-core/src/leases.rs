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
pub struct FencingToken(u64);

impl FencingToken {
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

impl fmt::Display for FencingToken {
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
    pub fencing_token: FencingToken,
}

/// Units in flight for one key. `Default` is a key never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// By grant: the first to expire first.
    entries: VecDeque<LeaseEntry>,
    /// The sum of all that is in `held`: however much a limit in the shadow is charged, it does not overflow.
    units: u128,
    last_fencing_token: FencingToken,
    /// The latest instant at which anything was written. This key's time does not step back behind it.
    last_written: Timestamp,
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
    FencingTokenTooHigh,
}

const NANOS_PER_MICRO: u64 = 1_000;

impl Leases {
    /// The leases of these entries, which decide as those that they are from did.
    pub fn from_entries(
        written: Timestamp,
        last_fence: FencingToken,
        entries: impl IntoIterator<Item = LeaseEntry>,
    ) -> Result<Self, LeasesError> {
        let mut leases = Self { last_fencing_token: last_fence, last_written: written, ..Self::default() };
        for entry in entries {
            if leases.entries.back().is_some_and(|last| last.grant >= entry.grant) {
                return Err(LeasesError::OutOfOrder);
            }
            if entry.units == 0 {
                return Err(LeasesError::NoUnits);
            }
            if entry.grant.fencing_token > last_fence {
                return Err(LeasesError::FencingTokenTooHigh);
            }
            leases.units += u128::from(entry.units);
            leases.entries.push_back(entry);
        }
        Ok(leases)
    }

    /// Every lease that is kept, the first to expire first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = LeaseEntry> {
        self.entries.iter().copied()
    }

    /// The leases that stand behind `after`, the first to expire first; all of them if there is none. Finding the
    /// first takes a binary search, and `after` need not be there any more.
    pub fn entries_after(&self, after: Option<Grant>) -> impl ExactSizeIterator<Item = LeaseEntry> {
        let first = after.map_or(0, |after| self.entries.partition_point(|lease| lease.grant <= after));
        self.entries.range(first..).copied()
    }

    /// The highest number that was handed out.
    pub fn last_fencing_token(&self) -> FencingToken {
        self.last_fencing_token
    }

    /// The latest instant at which anything was written.
    pub fn last_written(&self) -> Timestamp {
        self.last_written
    }

    /// Leases kept, those included that are over and were not dropped yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no lease is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Units of all leases that are kept.
    pub fn units(&self) -> u64 {
        u64::try_from(self.units).unwrap_or(u64::MAX)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<LeaseEntry>()
    }

    /// The instant that counts for a caller whose clock shows `now`.
    #[inline]
    pub fn effective_now(&self, now: Timestamp) -> Timestamp {
        self.last_written.max(now)
    }

    /// The number of the next lease: the time in microseconds, so that numbers grow even if this state is lost,
    /// and more than the last one, so that they grow within a microsecond.
    pub fn next_fencing_token(&self, now: Timestamp) -> FencingToken {
        FencingToken(self.last_fencing_token.0.saturating_add(1).max(self.effective_now(now).as_nanos() / NANOS_PER_MICRO))
    }

    /// Units whose lease is not over.
    pub fn units_at(&self, now: Timestamp) -> u64 {
        u64::try_from(self.live_units_at(self.effective_now(now))).unwrap_or(u64::MAX)
    }

    /// When so many leases will have ended by themselves that no more than `left` units are held; none if no more are.
    ///
    /// Looks from the end that is nearer: a limit that is enforced is over by little, and one that looks on may be over
    /// by any number of leases.
    pub(crate) fn when_at_most(&self, left: u64, now: Timestamp) -> Option<Timestamp> {
        let instant = self.effective_now(now);
        let is_live = |lease: &&LeaseEntry| lease.grant.expires > instant;
        let (left, live) = (u128::from(left), self.live_units_at(instant));
        let excess = live.checked_sub(left).filter(|excess| *excess > 0)?;
        let mut passed = 0_u128;
        let mut passes = |lease: &&LeaseEntry, most: u128| {
            passed += u128::from(lease.units);
            passed > most
        };
        let last_to_end = if excess <= left {
            self.entries.iter().filter(is_live).find(|lease| passes(lease, excess - 1))
        } else {
            self.entries.iter().rev().find(|lease| passes(lease, left))
        };
        last_to_end.map(|lease| lease.grant.expires)
    }

    /// The first instant at which all leases are over and the next fence is the time again.
    pub(crate) fn reset_at(&self) -> Timestamp {
        let fence_is_past = self.last_fencing_token.0.saturating_add(1).saturating_mul(NANOS_PER_MICRO);
        let fence_is_past = Timestamp::from_nanos(if self.last_fencing_token.0 == 0 { 0 } else { fence_is_past });
        self.entries.back().map_or(fence_is_past, |last| last.grant.expires.max(fence_is_past))
    }

    /// Hands out `units`.
    pub fn acquire(&mut self, grant: Grant, units: u64, now: Timestamp) {
        self.drop_expired(now);
        let place = self.entries.partition_point(|lease| lease.grant < grant);
        self.entries.insert(place, LeaseEntry { grant, units });
        self.units += u128::from(units);
        self.last_fencing_token = self.last_fencing_token.max(grant.fencing_token);
    }

    /// Takes back what `grant` holds: the units, or none if it holds nothing any more.
    pub fn release(&mut self, grant: Grant, now: Timestamp) -> Option<u64> {
        self.drop_expired(now);
        let at = self.find(grant)?;
        let lease = self.entries.remove(at)?;
        self.units -= u128::from(lease.units);
        Some(lease.units)
    }

    /// Lets the lease of `grant` last until `expires`: its new grant, or none if it holds nothing any more.
    pub fn renew(&mut self, grant: Grant, expires: Timestamp, now: Timestamp) -> Option<Grant> {
        let units = self.release(grant, now)?;
        let renewed = Grant { expires, ..grant };
        self.acquire(renewed, units, now);
        Some(renewed)
    }

    /// Leases with one lease in place of all, for questions about their sum and their end.
    pub(crate) fn summarized(&self, now: Timestamp) -> Self {
        let units = self.units_at(now);
        let last = self.entries.back().filter(|_| units > 0);
        let held = last.map(|last| LeaseEntry { units, ..*last }).into_iter().collect();
        Self { entries: held, units: u128::from(units), ..*self }
    }

    /// Where the lease is that was handed out with this fence.
    fn find(&self, grant: Grant) -> Option<usize> {
        let by_grant = self.entries.binary_search_by_key(&grant, |lease| lease.grant).ok();
        by_grant.or_else(|| self.entries.iter().position(|lease| lease.grant.fencing_token == grant.fencing_token))
    }

    fn live_units_at(&self, instant: Timestamp) -> u128 {
        let over: u128 = self.expired_at(instant).map(|lease| u128::from(lease.units)).sum();
        self.units - over
    }

    fn expired_at(&self, instant: Timestamp) -> impl Iterator<Item = &LeaseEntry> {
        self.entries.iter().take_while(move |lease| lease.grant.expires <= instant)
    }

    /// Moves this key's time on, and drops what is over.
    fn drop_expired(&mut self, now: Timestamp) {
        self.last_written = self.effective_now(now);
        while let Some(first) = self.entries.front()
            && first.grant.expires <= self.last_written
        {
            self.units -= u128::from(first.units);
            self.entries.pop_front();
        }
    }
}

impl LeasesError {
    /// What is wrong with them.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "leases are not in the order in which they expire",
            Self::NoUnits => "a lease holds nothing",
            Self::FencingTokenTooHigh => "a lease has a higher fence than was handed out",
        }
    }
}

impl fmt::Display for LeasesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for LeasesError {}
