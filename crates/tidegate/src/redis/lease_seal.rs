//! Seals the tokens of leases in Redis.
//!
//! In Redis a lease is found by its owner (`script/leases.rs`). The token that a caller gets has the end and the
//! fencing token of the lease, the random half of its owner, and an HMAC of all of them and of the key's name. So a
//! caller can change nothing in a token, as with the memory store.
//!
//! All nodes of a fleet need the same HMAC key, and their clients must not know it. It is made from the namespace and the
//! password of the store. Without a password it is no secret: then the HMAC shows damaged tokens, but not forged ones.

use ring::hmac;
use tidegate_core::{Grant, LeaseToken};

use super::plan::{LeaseOwner, RedisCharge};
use super::script::{lease_keys, owner_of};
use crate::Lease;
use crate::store::{LeaseReply, Reply};

/// Distinguishes this use of the password.
const CONTEXT: &str = "tidegate lease token 1";
/// The random half of an owner, and as much of the HMAC.
const HALF_BYTES: usize = 8;

/// Seals and opens lease tokens.
#[derive(Debug)]
pub(super) struct LeaseSeal {
    key: hmac::Key,
}

/// A genuine token.
pub(super) struct OpenedToken<'c> {
    /// The token with the owner as its seal, as the script expects it.
    pub token: LeaseToken,
    /// The name of the key that it was sealed for.
    pub key: &'c [u8],
}

impl LeaseSeal {
    /// For stores with this namespace and password.
    pub fn new(namespace: &str, password: &str) -> Self {
        let secret = [CONTEXT, namespace, password].join("\0");
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()) }
    }

    /// The reply for the caller: a lease that is held gets a sealed token.
    pub fn seal_reply(&self, reply: Reply, key: &[u8]) -> Reply {
        let LeaseReply::Held(lease) = reply.lease else { return reply };
        let owner = lease.token.seal().to_be_bytes();
        let grant = lease.token.grant();
        let token = LeaseToken::new(grant, self.seal(grant, owner, key)).with_ttl(lease.token.ttl());
        reply.with_lease(LeaseReply::Held(Lease { token, ..lease }))
    }

    /// Opens a token for one of the keys that these charges take leases from. `None` if it is not genuine.
    ///
    /// Any of the keys will do: a limit may have been added in front of the first one since the lease was taken.
    pub fn open<'c>(&self, token: &LeaseToken, charges: &'c [RedisCharge]) -> Option<OpenedToken<'c>> {
        lease_keys(charges).find_map(|key| {
            let owner = owner_of(token, key);
            let is_genuine = self.seal(token.grant(), owner, key) == token.seal();
            is_genuine.then(|| OpenedToken {
                token: LeaseToken::new(token.grant(), u128::from_be_bytes(owner)),
                key,
            })
        })
    }

    /// The seal of a lease: the random half of its owner, and half of the HMAC.
    fn seal(&self, grant: Grant, owner: LeaseOwner, key: &[u8]) -> u128 {
        let (random, _) = owner.split_at(HALF_BYTES);
        let mut context = hmac::Context::with_key(&self.key);
        context.update(random);
        context.update(&grant.expires.as_nanos().to_be_bytes());
        context.update(&grant.fencing_token.get().to_be_bytes());
        context.update(key);
        let tag = context.sign();
        let mut seal = owner;
        seal[HALF_BYTES..].copy_from_slice(&tag.as_ref()[..HALF_BYTES]);
        u128::from_be_bytes(seal)
    }
}
