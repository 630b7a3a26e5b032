//! The states of a call's keys while its orders are played on them.

use tidegate_core::{Algorithm, FencingToken, Leases, Timestamp};

use super::limit_state::{LimitState, LimitStateMut};
use super::key_state::{KeyState, LeaseOwners, read_owners};
use super::term::NANOS_PER_MICRO;
use crate::redis::plan::{RedisCharge, LeaseOwner};

/// The keys by their places. Each is read when the first order comes to it, which knows by which limit.
pub(super) struct ReplayKeys {
    values: Vec<Option<Vec<u8>>>,
    keys: Vec<ReplayKey>,
}

enum ReplayKey {
    Unread,
    Read(KeyState, LeaseOwners),
    Unreadable,
}

/// What a key holds is of no limit of this kind.
pub(super) struct Unreadable;

impl ReplayKeys {
    /// The keys that held this.
    pub fn new(found: Vec<Option<Vec<u8>>>) -> Self {
        let keys = found.iter().map(|_| ReplayKey::Unread).collect();
        Self { values: found, keys }
    }

    /// Makes sure that a key's state is there, as that of a charge's limit.
    #[inline]
    pub fn read(&mut self, charge: &RedisCharge, place: u16) -> Result<(), Unreadable> {
        let place = usize::from(place);
        let Some(key) = self.keys.get_mut(place) else { return Err(Unreadable) };
        if let ReplayKey::Unread = key {
            *key = read(&charge.algorithm, self.values[place].as_deref());
        }
        match key {
            ReplayKey::Read(state, _) if LimitState::new(&charge.algorithm, state).is_some() => Ok(()),
            _ => Err(Unreadable),
        }
    }

    /// A charge's limit and its state, which was [read](Self::read).
    #[inline]
    pub fn limit_state<'a>(&'a self, charge: &'a RedisCharge, place: u16) -> Option<LimitState<'a>> {
        match self.keys.get(usize::from(place)) {
            Some(ReplayKey::Read(state, _)) => LimitState::new(&charge.algorithm, state),
            _ => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn limit_state_mut<'a>(&'a mut self, charge: &'a RedisCharge, place: u16) -> Option<LimitStateMut<'a>> {
        match self.keys.get_mut(usize::from(place)) {
            Some(ReplayKey::Read(state, _)) => LimitStateMut::new(&charge.algorithm, state),
            _ => None,
        }
    }

    /// A key's state, which was [read](Self::read).
    pub fn state(&self, place: u16) -> Option<&KeyState> {
        match self.keys.get(usize::from(place)) {
            Some(ReplayKey::Read(state, _)) => Some(state),
            _ => None,
        }
    }

    /// A key's leases and who holds them, if it has any.
    pub fn leases_mut(&mut self, place: u16) -> Option<(&mut Leases, &LeaseOwners)> {
        match self.keys.get_mut(usize::from(place)) {
            Some(ReplayKey::Read(KeyState::Leases(leases), owners)) => Some((leases, owners)),
            _ => None,
        }
    }

    /// Notes who holds the lease with this fence.
    pub fn record_owner(&mut self, place: u16, fence: FencingToken, owner: LeaseOwner) {
        if let Some(ReplayKey::Read(KeyState::Leases(_), owners)) = self.keys.get_mut(usize::from(place)) {
            owners.push((fence, owner));
        }
    }

    /// Makes a key as if never seen, whatever it holds. The last fence stays for as long as the time is not past it.
    pub fn reset(&mut self, charge: &RedisCharge, place: u16, at: Timestamp) {
        let last_fence = match self.read(charge, place).ok().and_then(|()| self.state(place)) {
            Some(KeyState::Leases(leases)) => Some(leases.last_fencing_token()),
            _ => None,
        };
        let left = last_fence.filter(|fence| !is_before(*fence, at));
        let left = left.and_then(|fence| Leases::from_entries(at, fence, []).ok()).map(KeyState::Leases);
        if let Some(key) = self.keys.get_mut(usize::from(place)) {
            let state = left.unwrap_or_else(|| KeyState::never_seen(&charge.algorithm));
            *key = ReplayKey::Read(state, LeaseOwners::new());
        }
    }
}

/// Whether the next fence after this one would be the time.
pub(super) fn is_before(fence: FencingToken, at: Timestamp) -> bool {
    fence.get() < at.as_nanos() / NANOS_PER_MICRO
}

fn read(algorithm: &Algorithm, found: Option<&[u8]>) -> ReplayKey {
    let Some(bytes) = found else { return ReplayKey::Read(KeyState::never_seen(algorithm), LeaseOwners::new()) };
    match KeyState::read(algorithm, bytes) {
        Some(state @ KeyState::Leases(_)) => ReplayKey::Read(state, read_owners(bytes)),
        Some(state) => ReplayKey::Read(state, LeaseOwners::new()),
        None => ReplayKey::Unreadable,
    }
}
