//! Seals the tokens of leases in Redis.
//!
//! In Redis a lease is found by its owner (`script/leases.rs`). The token that a caller gets has the end, the fencing
//! token and the ttl of the lease, the random half of its owner, and an HMAC of all of them and of the key's name. So a
//! caller can change nothing in a token, as with the memory store.
//!
//! All nodes of a fleet need the same HMAC key, and their clients must not know it. It is made from the namespace and the
//! password of the store. Without a password it is no secret: then the HMAC shows damaged tokens, but not forged ones.

use tidegate_core::LeaseToken;

use super::plan::{LeaseOwner, RedisCharge};
use super::script::{lease_keys, owner_of};
use crate::Lease;
use crate::leases::token_seal::TokenSeal;
use crate::store::{LeaseReply, Reply};

/// Distinguishes this use of the password.
const CONTEXT: &str = "tidegate lease token 2";
/// The same for tokens of earlier versions, which have no ttl.
const CONTEXT_WITHOUT_TTL: &str = "tidegate lease token 1";

/// Seals and opens lease tokens.
#[derive(Debug)]
pub(super) struct LeaseSeal {
    seal: TokenSeal,
    seal_without_ttl: TokenSeal,
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
        let seal = |context: &str| TokenSeal::new([context, namespace, password]);
        Self { seal: seal(CONTEXT), seal_without_ttl: seal(CONTEXT_WITHOUT_TTL) }
    }

    /// The reply for the caller: a lease that is held gets a sealed token.
    pub fn seal_reply(&self, reply: Reply, key: &[u8]) -> Reply {
        let LeaseReply::Held(lease) = reply.lease else { return reply };
        let owner = lease.token.seal().to_be_bytes();
        let token = self.sealed(&lease.token, owner, key);
        reply.with_lease(LeaseReply::Held(Lease { token, ..lease }))
    }

    /// Opens a token for one of the keys that these charges take leases from. `None` if it is not genuine.
    ///
    /// Any of the keys will do: a limit may have been added in front of the first one since the lease was taken.
    pub fn open<'c>(&self, token: &LeaseToken, charges: &'c [RedisCharge]) -> Option<OpenedToken<'c>> {
        lease_keys(charges).find_map(|key| {
            let owner = owner_of(token, key);
            let is_genuine = self.sealed(token, owner, key) == *token;
            is_genuine.then(|| OpenedToken {
                token: LeaseToken::new(token.grant(), u128::from_be_bytes(owner)),
                key,
            })
        })
    }

    /// The token with the seal of its lease: the random half of its owner, and half of the HMAC.
    fn sealed(&self, token: &LeaseToken, owner: LeaseOwner, key: &[u8]) -> LeaseToken {
        let seal = if token.ttl().is_some() { &self.seal } else { &self.seal_without_ttl };
        let [a, b, c, d, e, f, g, h, ..] = owner;
        seal.sealed(token, [a, b, c, d, e, f, g, h], key)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{FencingToken, Grant, Nanos, Timestamp};

    use super::*;

    /// The HMAC was computed with another program.
    #[test]
    fn a_token_of_an_earlier_version_has_the_same_seal_without_its_ttl() {
        let owner: LeaseOwner = [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0];
        let grant = Grant {
            expires: Timestamp::from_nanos(1_700_000_000_000_000_000),
            fencing_token: FencingToken::new(7),
        };
        let token = LeaseToken::new(grant, u128::from_be_bytes(owner));
        let seal = LeaseSeal::new("ns", "pw");
        let earlier = seal.sealed(&token, owner, b"key");
        assert_eq!(format!("{:032x}", earlier.seal()), "0001020304050607dd0f2cafdcaf09a2");
        let with_ttl = |ttl: u128| seal.sealed(&token.with_ttl(Some(Nanos::new(ttl))), owner, b"key").seal();
        assert!(with_ttl(1) != earlier.seal() && with_ttl(1) != with_ttl(2));
    }
}
