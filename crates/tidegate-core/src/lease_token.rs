//! What the holder of a lease shows to renew or release it.

use std::fmt;
use std::str::FromStr;

use crate::{FencingToken, Grant, Timestamp};

/// Proof of a lease. Its holder can renew and release the lease, so keep it secret.
///
/// Written as 64 hexadecimal digits and read back with [`str::parse`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    grant: Grant,
    seal: u128,
}

/// Text that is no [`LeaseToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLeaseTokenError;

impl LeaseToken {
    /// The token of a lease, with the seal that the store makes for it.
    pub const fn new(grant: Grant, seal: u128) -> Self {
        Self { grant, seal }
    }

    /// Which lease it is for.
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// What shows that it is genuine.
    pub const fn seal(&self) -> u128 {
        self.seal
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}{:032x}", self.grant.expires.as_nanos(), self.grant.fencing_token.get(), self.seal)
    }
}

/// Leaves the seal out: logs are no place for secrets.
impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseToken").field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl FromStr for LeaseToken {
    type Err = ParseLeaseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseLeaseTokenError> {
        let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let word = |from: usize| u64::from_str_radix(&text[from..from + 16], 16).map_err(|_| ParseLeaseTokenError);
        if !digits {
            return Err(ParseLeaseTokenError);
        }
        let grant = Grant { expires: Timestamp::from_nanos(word(0)?), fencing_token: FencingToken::new(word(16)?) };
        Ok(Self { grant, seal: u128::from(word(32)?) << 64 | u128::from(word(48)?) })
    }
}

impl fmt::Display for ParseLeaseTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this is no lease token (hint: a token is the 64 hexadecimal digits that acquire answered)",
        )
    }
}

impl std::error::Error for ParseLeaseTokenError {}
