//! Seals of lease tokens in shared stores: 64 random bits, and 64 bits of an HMAC.
//!
//! All nodes need the same HMAC key, and their clients must not know it. It is made from the namespace and the password
//! of the store. Without a password it is no secret: then the HMAC shows damaged tokens, but not forged ones.

use ring::hmac;
use tidegate_core::LeaseToken;

/// Seals lease tokens.
#[derive(Debug)]
pub(crate) struct TokenSeal(hmac::Key);

impl TokenSeal {
    /// The secret is made of these parts. The first one distinguishes this use of the password.
    pub fn new(secret: [&str; 3]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.join("\0").as_bytes()))
    }

    /// The token with its seal: random bits, and an HMAC of them, of the token and of the key's name.
    pub fn sealed(&self, token: &LeaseToken, random: [u8; 8], key: &[u8]) -> LeaseToken {
        let (grant, ttl) = (token.grant(), token.ttl());
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&random);
        context.update(&grant.expires.as_nanos().to_be_bytes());
        context.update(&grant.fencing_token.get().to_be_bytes());
        if let Some(ttl) = ttl {
            context.update(&ttl.get().to_be_bytes());
        }
        context.update(key);
        let tag = context.sign();
        let mut tag_half = [0; 8];
        tag_half.copy_from_slice(&tag.as_ref()[..8]);
        let seal = u128::from(u64::from_be_bytes(random)) << 64 | u128::from(u64::from_be_bytes(tag_half));
        LeaseToken::new(grant, seal).with_ttl(ttl)
    }
}
