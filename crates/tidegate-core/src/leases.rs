//! The state of a concurrency limit: which leases hold how many units, and until when.
//!
//! A lease holds its units until it is released or expires. Leases are kept in the order in which they expire. No task
//! sweeps them: a read skips expired leases, and a write drops them. A [`Grant`] identifies a lease and gives its
//! position, so finding a lease is a binary search. Only a caller that shows the grant from before a renewal causes a
//! linear search.
//!
//! A plan with several concurrency limits has one lease in all of them. That lease has the highest of their fencing
//! tokens, and the shortest ttl, counted from the latest instant that any of their keys has seen. A store that forgets
//! states keeps the highest fencing token of all of them and starts above it. So fencing tokens grow even across a
//! reset or an eviction within the same microsecond.
//!
//! A `check` on a concurrency limit takes a lease that cannot be released, because the caller gets no token. It ends
//! with its ttl.

use std::collections::VecDeque;
use std::fmt;

use crate::Timestamp;

/// A number that grows with every lease of a key. The protected resource remembers the highest number that it has seen
/// and refuses lower ones, so an old holder cannot act after a newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The fencing token with this number.
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

/// Identifies a lease among all leases of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The first instant at which the lease is over.
    pub expires: Timestamp,
    /// Its fencing token.
    pub fencing_token: FencingToken,
}

/// Units in flight for one key. `Default` is a key that was never seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// Sorted by grant: the first to expire comes first.
    entries: VecDeque<LeaseEntry>,
    /// The units of all entries. An observed limit may be charged without bound, so `u64` could overflow.
    units: u128,
    last_fencing_token: FencingToken,
    /// The latest instant at which anything was written. The time of this key never goes back before it.
    last_written: Timestamp,
}

/// Units that a lease holds until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseEntry {
    /// Which lease it is.
    pub grant: Grant,
    /// The units that it holds, at least one.
    pub units: u64,
}

/// Why entries are not valid leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasesError {
    /// A grant is not later than the one before it.
    OutOfOrder,
    /// A lease holds no units.
    NoUnits,
    /// A lease has a higher fencing token than the last one that was handed out.
    FencingTokenTooHigh,
}

const NANOS_PER_MICRO: u64 = 1_000;
/// How long after the last write a state is kept because of its fencing token. In a microsecond a key gets few tokens, so
/// the time passes the last token soon. A token that is further ahead is from a clock that was wrong. The store then
/// drops the state before, and starts above its token. So clients never see a reset that is years away.
const TOKEN_AHEAD_MAX_NS: u64 = 1_000_000_000;

impl Leases {
    /// Restores leases from their entries. They decide as the original did.
    pub fn from_entries(
        last_written: Timestamp,
        last_fencing_token: FencingToken,
        entries: impl IntoIterator<Item = LeaseEntry>,
    ) -> Result<Self, LeasesError> {
        let mut leases = Self { last_fencing_token, last_written, ..Self::default() };
        for entry in entries {
            if leases.entries.back().is_some_and(|last| last.grant >= entry.grant) {
                return Err(LeasesError::OutOfOrder);
            }
            if entry.units == 0 {
                return Err(LeasesError::NoUnits);
            }
            if entry.grant.fencing_token > last_fencing_token {
                return Err(LeasesError::FencingTokenTooHigh);
            }
            leases.units += u128::from(entry.units);
            leases.entries.push_back(entry);
        }
        Ok(leases)
    }

    /// All leases that are kept, the first to expire first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = LeaseEntry> + DoubleEndedIterator {
        self.entries.iter().copied()
    }

    /// The leases after `after`, the first to expire first; all of them if `after` is `None`. Finding the first takes a
    /// binary search. `after` itself may be gone.
    pub fn entries_after(&self, after: Option<Grant>) -> impl ExactSizeIterator<Item = LeaseEntry> {
        let first = after.map_or(0, |after| self.entries.partition_point(|lease| lease.grant <= after));
        self.entries.range(first..).copied()
    }

    /// The highest fencing token that was handed out.
    pub fn last_fencing_token(&self) -> FencingToken {
        self.last_fencing_token
    }

    /// The latest instant at which anything was written.
    pub fn last_written(&self) -> Timestamp {
        self.last_written
    }

    /// The number of leases kept, including expired ones that were not dropped yet.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no lease is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The units of all leases that are kept.
    pub fn units(&self) -> u64 {
        u64::try_from(self.units).unwrap_or(u64::MAX)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<LeaseEntry>()
    }

    /// Bytes on the heap after one more lease, if no lease expires before.
    pub fn heap_bytes_after_acquire(&self) -> usize {
        /// The smallest capacity of a deque that is not empty.
        const CAPACITY_MIN: usize = 4;
        let capacity = self.entries.capacity();
        match self.entries.len() < capacity {
            true => self.heap_bytes(),
            false => (2 * capacity).max(CAPACITY_MIN) * size_of::<LeaseEntry>(),
        }
    }

    /// The instant that counts for a caller whose clock shows `now`: time never goes back before the last write.
    #[inline]
    pub fn effective_now(&self, now: Timestamp) -> Timestamp {
        self.last_written.max(now)
    }

    /// The fencing token of the next lease. It is at least the time in microseconds, so that tokens grow even if this
    /// state is lost. It is higher than the last one, so that tokens grow within a microsecond.
    pub fn next_fencing_token(&self, now: Timestamp) -> FencingToken {
        FencingToken(
            self.last_fencing_token
                .0
                .saturating_add(1)
                .max(self.effective_now(now).as_nanos() / NANOS_PER_MICRO),
        )
    }

    /// The units of leases that have not expired.
    pub fn units_at(&self, now: Timestamp) -> u64 {
        u64::try_from(self.live_units_at(self.effective_now(now))).unwrap_or(u64::MAX)
    }

    /// The instant at which, by expiry alone, no more than `left` units are held. `None` if that is already so.
    ///
    /// Searches from the nearer end: an enforced limit exceeds `left` by little, an observed limit may exceed it by any
    /// number of leases.
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

    /// The first instant at which all leases have expired and the next fencing token is the time again. Or earlier, if the
    /// token is more than [`TOKEN_AHEAD_MAX_NS`] ahead.
    pub(crate) fn reset_at(&self) -> Timestamp {
        let latest = Timestamp::from_nanos(self.last_written.as_nanos().saturating_add(TOKEN_AHEAD_MAX_NS));
        let token_passed_at = match self.last_fencing_token.0 {
            0 => Timestamp::from_nanos(0),
            last => Timestamp::from_nanos(last.saturating_add(1).saturating_mul(NANOS_PER_MICRO)).min(latest),
        };
        self.entries.back().map_or(token_passed_at, |last| last.grant.expires.max(token_passed_at))
    }

    /// Adds a lease on `units`.
    pub fn acquire(&mut self, grant: Grant, units: u64, now: Timestamp) {
        self.drop_expired(now);
        let index = self.entries.partition_point(|lease| lease.grant < grant);
        self.entries.insert(index, LeaseEntry { grant, units });
        self.units += u128::from(units);
        self.last_fencing_token = self.last_fencing_token.max(grant.fencing_token);
    }

    /// Removes the lease of `grant` and returns its units. `None` if the lease is gone.
    pub fn release(&mut self, grant: Grant, now: Timestamp) -> Option<u64> {
        self.drop_expired(now);
        let index = self.find(grant)?;
        let lease = self.entries.remove(index)?;
        self.units -= u128::from(lease.units);
        Some(lease.units)
    }

    /// Moves the end of a lease to `expires` and returns its new grant. `None` if the lease is gone.
    pub fn renew(&mut self, grant: Grant, expires: Timestamp, now: Timestamp) -> Option<Grant> {
        let units = self.release(grant, now)?;
        let renewed = Grant { expires, ..grant };
        self.acquire(renewed, units, now);
        Some(renewed)
    }

    /// A state with one lease in place of all. It has the same sum and the same end.
    pub(crate) fn summarized(&self, now: Timestamp) -> Self {
        let units = self.units_at(now);
        let last = self.entries.back().filter(|_| units > 0);
        let entries = last.map(|last| LeaseEntry { units, ..*last }).into_iter().collect();
        Self { entries, units: u128::from(units), ..*self }
    }

    /// The index of the lease that was handed out with this fencing token.
    fn find(&self, grant: Grant) -> Option<usize> {
        let by_grant = self.entries.binary_search_by_key(&grant, |lease| lease.grant).ok();
        by_grant.or_else(|| {
            self.entries.iter().position(|lease| lease.grant.fencing_token == grant.fencing_token)
        })
    }

    fn live_units_at(&self, instant: Timestamp) -> u128 {
        let expired: u128 = self.expired_at(instant).map(|lease| u128::from(lease.units)).sum();
        self.units - expired
    }

    fn expired_at(&self, instant: Timestamp) -> impl Iterator<Item = &LeaseEntry> {
        self.entries.iter().take_while(move |lease| lease.grant.expires <= instant)
    }

    /// Advances this key's time and drops expired leases.
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
    /// What is wrong with the entries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfOrder => "leases are not in the order in which they expire",
            Self::NoUnits => "a lease holds nothing",
            Self::FencingTokenTooHigh => "a lease has a higher fencing token than was handed out",
        }
    }
}

impl fmt::Display for LeasesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for LeasesError {}
