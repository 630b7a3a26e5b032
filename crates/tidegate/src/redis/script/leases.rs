//! Leases: who they belong to, and what became of one that was to be renewed or released.
//!
//! A lease in Redis belongs to whoever knows its owner: 16 bytes of which the first eight are random and the others say
//! which key it is for, so that a token that is shown for another key is known to be wrong without asking. They are what
//! a token has as its seal. A store that finds no lease of that owner knows that the token was good once, or that somebody
//! made it up, who learns nothing from the answer; and that the lease was released if its end is not over.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use tidegate_core::{Algorithm, Grant, Leases, Role, Timestamp};

use super::key_state::LeaseOwners;
use crate::redis::plan::{NO_OWNER, RedisCharge, LeaseOwner};
use crate::store::LeaseReply;
use crate::{Lease, LeaseToken};

/// The same in all processes that share a store: it is no secret, for what is random is.
const OWNER_KEY: [u64; 2] = [0x7469_6465_6761_7465, 0x6c65_6173_6573_2e31];

/// The owner of a lease that these charges are to be given, from 64 random bits; none if none of them takes a lease.
pub(in crate::redis) fn new_owner(random: u64, charges: &[RedisCharge]) -> Option<LeaseOwner> {
    governing_charges(charges).next().map(|charge| derive_owner(random.max(1), &charge.key))
}

/// Whether a token is of one of the keys that these charges take leases from.
pub(in crate::redis) fn is_token_of(token: &LeaseToken, charges: &[RedisCharge]) -> bool {
    let owner = token.seal().to_be_bytes();
    let [a, b, c, d, e, f, g, h, ..] = owner;
    let random = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    // Any of them: a limit may have been added beside the one that the lease was taken from first.
    charges.iter().filter(takes_leases).any(|charge| derive_owner(random, &charge.key) == owner)
}

/// What became of a lease that is nowhere to be found at this instant.
pub(super) fn missing_lease_reply(token: &LeaseToken, at: Timestamp) -> LeaseReply {
    if token.grant().expires <= at { LeaseReply::Expired } else { LeaseReply::AlreadyReleased }
}

/// A lease that is held since then.
pub(super) fn held_reply(grant: Grant, owner: LeaseOwner, since: Timestamp) -> LeaseReply {
    let token = LeaseToken::new(grant, u128::from_be_bytes(owner));
    LeaseReply::Held(Lease { token, fence: grant.fencing_token, since, expires: grant.expires })
}

/// The charges that say when a lease ends and that its owner is drawn for: those that are enforced; all if none is, for
/// those that look on come and go.
pub(super) fn governing_charges(charges: &[RedisCharge]) -> impl Iterator<Item = &RedisCharge> {
    let is_enforced = |charge: &&RedisCharge| charge.role == Role::Enforced;
    let role = charges.iter().filter(takes_leases).find(is_enforced).map_or(Role::Observed, |one| one.role);
    charges.iter().filter(takes_leases).filter(move |charge| charge.role == role)
}

/// The lease that a token is of, if it is held at an instant. Its owner has no other of this key.
pub(super) fn find_held(leases: &Leases, owners: &LeaseOwners, token: &LeaseToken, at: Timestamp) -> Option<Grant> {
    let owner = token.seal().to_be_bytes();
    if owner == NO_OWNER {
        return None;
    }
    let instant = leases.effective_now(at);
    let is_owned = |grant: &Grant| owners.contains(&(grant.fencing_token, owner));
    leases.entries().map(|lease| lease.grant).find(|grant| grant.expires > instant && is_owned(grant))
}

fn takes_leases(charge: &&RedisCharge) -> bool {
    matches!(charge.algorithm, Algorithm::Leases(_))
}

fn derive_owner(random: u64, key: &[u8]) -> LeaseOwner {
    let [key0, key1] = OWNER_KEY;
    let mut hasher = SipHasher24::new_with_keys(key0, key1);
    hasher.write(&random.to_be_bytes());
    hasher.write(key);
    (u128::from(random) << 64 | u128::from(hasher.finish())).to_be_bytes()
}
