//! The token with which the holder of a lease renews or releases it.
//!
//! A token is the end, the fencing token and the ttl of its lease, with a seal that the store makes. The memory store's
//! seal is a SipHash-2-4 of all of them and of the key's tag, under the store's seed. The seal of a lease in Redis is 64
//! random bits, and 64 bits of an HMAC of all of them and of the key's name.
//!
//! Therefore a store keeps no list of released leases. If the lease of a genuine token is gone, it was released if its
//! end is still to come, and it expired otherwise.
//!
//! A token has the ttl of its lease, so that a renewal without a ttl keeps it. Tokens of earlier versions have none, and
//! their seal is that of a token without a ttl.

use std::fmt;
use std::str::FromStr;

use crate::{FencingToken, Grant, Nanos, Timestamp};

/// Proof of a lease. Its holder can renew and release the lease, so keep it secret.
///
/// Written as 80 hexadecimal digits and read back with [`str::parse`], which also reads the 64 digits of a token without
/// a ttl.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    grant: Grant,
    seal: u128,
    /// 0 if the token has none.
    ttl_ns: u64,
}

/// The digits of a token without a ttl.
const DIGITS: usize = 64;
/// The digits of a token with a ttl.
const DIGITS_WITH_TTL: usize = DIGITS + 16;

/// The text is not a [`LeaseToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLeaseTokenError;

impl LeaseToken {
    /// The token of a lease, with the seal that the store made for it.
    pub const fn new(grant: Grant, seal: u128) -> Self {
        Self { grant, seal, ttl_ns: 0 }
    }

    /// The same token for a lease with this ttl. The seal must cover it.
    #[must_use]
    pub fn with_ttl(self, ttl: Option<Nanos>) -> Self {
        let ttl_ns = ttl.map_or(0, |ttl| u64::try_from(ttl.get()).unwrap_or(u64::MAX));
        Self { ttl_ns, ..self }
    }

    /// How long the lease lasts from when it was granted or last renewed, if the token has it.
    pub fn ttl(&self) -> Option<Nanos> {
        (self.ttl_ns > 0).then(|| Nanos::new(self.ttl_ns.into()))
    }

    /// Which lease the token is for.
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// Shows that the token is genuine.
    pub const fn seal(&self) -> u128 {
        self.seal
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:016x}{:016x}{:032x}",
            self.grant.expires.as_nanos(),
            self.grant.fencing_token.get(),
            self.seal
        )?;
        if self.ttl_ns > 0 { write!(f, "{:016x}", self.ttl_ns) } else { Ok(()) }
    }
}

/// Leaves the seal out, so that logs contain no secret.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseToken").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl FromStr for LeaseToken {
    type Err = ParseLeaseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseLeaseTokenError> {
        let digits = [DIGITS, DIGITS_WITH_TTL].contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let word =
            |from: usize| u64::from_str_radix(&text[from..from + 16], 16).map_err(|_| ParseLeaseTokenError);
        if !digits {
            return Err(ParseLeaseTokenError);
        }
        let grant =
            Grant { expires: Timestamp::from_nanos(word(0)?), fencing_token: FencingToken::new(word(16)?) };
        let ttl_ns = if text.len() == DIGITS_WITH_TTL { word(DIGITS)? } else { 0 };
        Ok(Self { grant, seal: u128::from(word(32)?) << 64 | u128::from(word(48)?), ttl_ns })
    }
}

impl fmt::Display for ParseLeaseTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this is not a lease token (hint: a token is the 80 hexadecimal digits that acquire returned)",
        )
    }
}

impl std::error::Error for ParseLeaseTokenError {}
