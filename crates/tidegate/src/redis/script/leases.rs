//! Lease owners, and the replies to a renewal or a release.
//!
//! A lease in Redis is identified by its owner: 16 secret bytes. The first eight are random, the others are a
//! digest of the key's name. Here, the seal of a token is the owner; `lease_seal` replaces it in the tokens of
//! callers, and rejects tokens that are not genuine without a call. If Redis has no lease of an owner, the
//! lease was released if its end has not passed, and expired if it has.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use tidegate_core::{Grant, Leases, Nanos, Role, Timestamp};

use super::key_state::LeaseOwners;
use crate::redis::key_name::KeyName;
use crate::redis::leases::holds_leases;
use crate::redis::plan::{LeaseOwner, NO_OWNER, RedisCharge};
use crate::store::LeaseReply;
use crate::{Lease, LeaseToken};

/// The hash key for owners, equal in all nodes that share a store. It is not secret: the random half is.
const OWNER_KEY: [u64; 2] = [0x7469_6465_6761_7465, 0x6c65_6173_6573_2e31];

/// A new owner for the lease of these charges, from 64 random bits; none if no charge takes a lease.
pub(crate) fn new_owner(random: u64, charges: &[RedisCharge]) -> Option<LeaseOwner> {
    governing_key(charges).map(|key| derive_owner(random.max(1), key))
}

/// The key that the owner of a new lease is derived from; none if no charge takes a lease.
pub(crate) fn governing_key(charges: &[RedisCharge]) -> Option<&KeyName> {
    governing_charges(charges).next().map(|charge| &charge.key)
}

/// The keys that these charges take leases from.
pub(crate) fn lease_keys(charges: &[RedisCharge]) -> impl Iterator<Item = &[u8]> {
    charges.iter().filter(|charge| holds_leases(charge)).map(|charge| &*charge.key)
}

/// The owner of the lease that a token is for, if it is a lease on this key.
pub(crate) fn owner_of(token: &LeaseToken, key: &[u8]) -> LeaseOwner {
    let [a, b, c, d, e, f, g, h, ..] = token.seal().to_be_bytes();
    derive_owner(u64::from_be_bytes([a, b, c, d, e, f, g, h]), key)
}

/// The reply for a lease that was not found at this instant.
pub(super) fn missing_lease_reply(token: &LeaseToken, at: Timestamp) -> LeaseReply {
    if token.grant().expires <= at { LeaseReply::Expired } else { LeaseReply::AlreadyReleased }
}

/// The reply for a lease that is held since this instant, and lasts for this ttl.
pub(super) fn held_reply(grant: Grant, owner: LeaseOwner, since: Timestamp, ttl: Nanos) -> LeaseReply {
    let token = LeaseToken::new(grant, u128::from_be_bytes(owner)).with_ttl(Some(ttl));
    LeaseReply::Held(Lease::new(token, since))
}

/// The charges that decide when a lease ends and which key its owner is derived from: the enforced ones. All
/// charges if none is enforced, because observed limits come and go.
pub(super) fn governing_charges(charges: &[RedisCharge]) -> impl Iterator<Item = &RedisCharge> {
    let is_enforced = |charge: &&RedisCharge| charge.role == Role::Enforced;
    let role = charges
        .iter()
        .filter(|charge| holds_leases(charge))
        .find(is_enforced)
        .map_or(Role::Observed, |charge| charge.role);
    charges.iter().filter(|charge| holds_leases(charge)).filter(move |charge| charge.role == role)
}

/// The lease of a token, if it is held at this instant. An owner has at most one lease per key.
pub(super) fn find_held(
    leases: &Leases,
    owners: &LeaseOwners,
    token: &LeaseToken,
    at: Timestamp,
) -> Option<Grant> {
    let owner = token.seal().to_be_bytes();
    if owner == NO_OWNER {
        return None;
    }
    let instant = leases.effective_now(at);
    let is_owned = |grant: &Grant| owners.contains(&(grant.fencing_token, owner));
    leases.entries().map(|lease| lease.grant).find(|grant| grant.expires > instant && is_owned(grant))
}

fn derive_owner(random: u64, key: &[u8]) -> LeaseOwner {
    let [key0, key1] = OWNER_KEY;
    let mut hasher = SipHasher24::new_with_keys(key0, key1);
    hasher.write(&random.to_be_bytes());
    hasher.write(key);
    (u128::from(random) << 64 | u128::from(hasher.finish())).to_be_bytes()
}
