//! The states of a call's keys during a replay.

use tidegate_core::{Algorithm, FencingToken, Leases, Timestamp};

use super::key_state::{KeyState, LeaseOwners, read_owners};
use super::limit_state::{LimitState, LimitStateMut};
use super::term::NANOS_PER_MICRO;
use crate::redis::plan::{LeaseOwner, RedisCharge};

/// The keys by index. Each is parsed for the first plan that uses it, because only the plan's limit knows the
/// format.
pub(super) struct ReplayKeys {
    values: Vec<Option<Vec<u8>>>,
    keys: Vec<ReplayKey>,
}

enum ReplayKey {
    Unread,
    Read(KeyState, LeaseOwners),
    Unreadable,
}

/// The key holds a value that this limit did not write.
pub(super) struct Unreadable;

impl ReplayKeys {
    /// The keys with the values that the script found.
    pub fn new(values: Vec<Option<Vec<u8>>>) -> Self {
        let keys = values.iter().map(|_| ReplayKey::Unread).collect();
        Self { values, keys }
    }

    /// Parses the state of a charge's key, unless that is done.
    #[inline]
    pub fn read(&mut self, charge: &RedisCharge, key_index: u16) -> Result<(), Unreadable> {
        let key_index = usize::from(key_index);
        let Some(key) = self.keys.get_mut(key_index) else { return Err(Unreadable) };
        if let ReplayKey::Unread = key {
            *key = read(&charge.algorithm, self.values[key_index].as_deref());
        }
        match key {
            ReplayKey::Read(state, _) if LimitState::new(&charge.algorithm, state).is_some() => Ok(()),
            _ => Err(Unreadable),
        }
    }

    /// A charge's limit with its state, which must have been [read](Self::read).
    #[inline]
    pub fn limit_state<'a>(&'a self, charge: &'a RedisCharge, key_index: u16) -> Option<LimitState<'a>> {
        match self.keys.get(usize::from(key_index)) {
            Some(ReplayKey::Read(state, _)) => LimitState::new(&charge.algorithm, state),
            _ => None,
        }
    }

    /// The same, mutable.
    #[inline]
    pub fn limit_state_mut<'a>(
        &'a mut self,
        charge: &'a RedisCharge,
        key_index: u16,
    ) -> Option<LimitStateMut<'a>> {
        match self.keys.get_mut(usize::from(key_index)) {
            Some(ReplayKey::Read(state, _)) => LimitStateMut::new(&charge.algorithm, state),
            _ => None,
        }
    }

    /// The state of a key, which must have been [read](Self::read).
    pub fn state(&self, key_index: u16) -> Option<&KeyState> {
        match self.keys.get(usize::from(key_index)) {
            Some(ReplayKey::Read(state, _)) => Some(state),
            _ => None,
        }
    }

    /// The leases of a key and their owners, if it has any.
    pub fn leases_mut(&mut self, key_index: u16) -> Option<(&mut Leases, &LeaseOwners)> {
        match self.keys.get_mut(usize::from(key_index)) {
            Some(ReplayKey::Read(KeyState::Leases(leases), owners)) => Some((leases, owners)),
            _ => None,
        }
    }

    /// Records the owner of the lease with this fencing token.
    pub fn record_owner(&mut self, key_index: u16, fence: FencingToken, owner: LeaseOwner) {
        if let Some(ReplayKey::Read(KeyState::Leases(_), owners)) = self.keys.get_mut(usize::from(key_index))
        {
            owners.push((fence, owner));
        }
    }

    /// Resets a key, whatever it holds. The last fencing token stays until the time has passed it.
    pub fn reset(&mut self, charge: &RedisCharge, key_index: u16, at: Timestamp) {
        let last_fence = match self.read(charge, key_index).ok().and_then(|()| self.state(key_index)) {
            Some(KeyState::Leases(leases)) => Some(leases.last_fencing_token()),
            _ => None,
        };
        let left = last_fence.filter(|fence| !is_before(*fence, at));
        let left = left.and_then(|fence| Leases::from_entries(at, fence, []).ok()).map(KeyState::Leases);
        if let Some(key) = self.keys.get_mut(usize::from(key_index)) {
            let state = left.unwrap_or_else(|| KeyState::never_seen(&charge.algorithm));
            *key = ReplayKey::Read(state, LeaseOwners::new());
        }
    }
}

/// Whether the clock has passed this fencing token, so that the next one is the time itself.
pub(super) fn is_before(fence: FencingToken, at: Timestamp) -> bool {
    fence.get() < at.as_nanos() / NANOS_PER_MICRO
}

fn read(algorithm: &Algorithm, value: Option<&[u8]>) -> ReplayKey {
    let Some(bytes) = value else {
        return ReplayKey::Read(KeyState::never_seen(algorithm), LeaseOwners::new());
    };
    match KeyState::read(algorithm, bytes) {
        Some(state @ KeyState::Leases(_)) => ReplayKey::Read(state, read_owners(bytes)),
        Some(state) => ReplayKey::Read(state, LeaseOwners::new()),
        None => ReplayKey::Unreadable,
    }
}
