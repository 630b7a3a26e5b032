//! The states of a call's keys while its orders are played on them.

use tidegate_core::{Algorithm, Fence, Leases, Timestamp};

use super::line::{Line, LineMut};
use super::states::{KeyState, Owners, read_owners};
use super::term::NANOS_PER_MICRO;
use crate::redis::order::{OrderCharge, Owner};

/// The keys by their places. Each is read when the first order comes to it, which knows by which limit.
pub(super) struct Keys {
    found: Vec<Option<Vec<u8>>>,
    keys: Vec<Key>,
}

enum Key {
    Unread,
    Read(KeyState, Owners),
    Unreadable,
}

/// What a key holds is of no limit of this kind.
pub(super) struct Unreadable;

impl Keys {
    /// The keys that held this.
    pub fn new(found: Vec<Option<Vec<u8>>>) -> Self {
        let keys = found.iter().map(|_| Key::Unread).collect();
        Self { found, keys }
    }

    /// Makes sure that a key's state is there, as that of a charge's limit.
    #[inline]
    pub fn read(&mut self, charge: &OrderCharge, place: u16) -> Result<(), Unreadable> {
        let place = usize::from(place);
        let Some(key) = self.keys.get_mut(place) else { return Err(Unreadable) };
        if let Key::Unread = key {
            *key = read(&charge.algorithm, self.found[place].as_deref());
        }
        match key {
            Key::Read(state, _) if Line::of(&charge.algorithm, state).is_some() => Ok(()),
            _ => Err(Unreadable),
        }
    }

    /// A charge's limit and its state, which was [read](Self::read).
    #[inline]
    pub fn line<'a>(&'a self, charge: &'a OrderCharge, place: u16) -> Option<Line<'a>> {
        match self.keys.get(usize::from(place)) {
            Some(Key::Read(state, _)) => Line::of(&charge.algorithm, state),
            _ => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn line_mut<'a>(&'a mut self, charge: &'a OrderCharge, place: u16) -> Option<LineMut<'a>> {
        match self.keys.get_mut(usize::from(place)) {
            Some(Key::Read(state, _)) => LineMut::of(&charge.algorithm, state),
            _ => None,
        }
    }

    /// A key's state, which was [read](Self::read).
    pub fn state(&self, place: u16) -> Option<&KeyState> {
        match self.keys.get(usize::from(place)) {
            Some(Key::Read(state, _)) => Some(state),
            _ => None,
        }
    }

    /// A key's leases and who holds them, if it has any.
    pub fn leases_mut(&mut self, place: u16) -> Option<(&mut Leases, &Owners)> {
        match self.keys.get_mut(usize::from(place)) {
            Some(Key::Read(KeyState::Leases(leases), owners)) => Some((leases, owners)),
            _ => None,
        }
    }

    /// Notes who holds the lease with this fence.
    pub fn note_owner(&mut self, place: u16, fence: Fence, owner: Owner) {
        if let Some(Key::Read(KeyState::Leases(_), owners)) = self.keys.get_mut(usize::from(place)) {
            owners.push((fence, owner));
        }
    }

    /// Makes a key as if never seen, whatever it holds. The last fence stays for as long as the time is not past it.
    pub fn reset(&mut self, charge: &OrderCharge, place: u16, at: Timestamp) {
        let last_fence = match self.read(charge, place).ok().and_then(|()| self.state(place)) {
            Some(KeyState::Leases(leases)) => Some(leases.last_fence()),
            _ => None,
        };
        let left = last_fence.filter(|fence| !is_past(*fence, at));
        let left = left.and_then(|fence| Leases::from_entries(at, fence, []).ok()).map(KeyState::Leases);
        if let Some(key) = self.keys.get_mut(usize::from(place)) {
            let state = left.unwrap_or_else(|| KeyState::never_seen(&charge.algorithm));
            *key = Key::Read(state, Owners::new());
        }
    }
}

/// Whether the next fence after this one would be the time.
pub(super) fn is_past(fence: Fence, at: Timestamp) -> bool {
    fence.get() < at.as_nanos() / NANOS_PER_MICRO
}

fn read(algorithm: &Algorithm, found: Option<&[u8]>) -> Key {
    let Some(bytes) = found else { return Key::Read(KeyState::never_seen(algorithm), Owners::new()) };
    match KeyState::read(algorithm, bytes) {
        Some(state @ KeyState::Leases(_)) => Key::Read(state, read_owners(bytes)),
        Some(state) => Key::Read(state, Owners::new()),
        None => Key::Unreadable,
    }
}
