//! The interface of token verifiers.

use std::fmt;

use tidegate_core::Timestamp;

/// Verifies the tokens of requests.
///
/// The feature `jwt` has one for JSON Web Tokens.
pub trait VerifyToken: fmt::Debug + Send + Sync {
    /// The values of these claims, in order, if the token is valid now. A claim that is missing or is neither text,
    /// number nor bool has no value.
    fn verify(
        &self,
        token: &str,
        claims: &[&str],
        now: Timestamp,
    ) -> Result<Vec<Option<String>>, TokenProblem>;
}

/// Why a token is not accepted. The attributes that come from it are then missing. The token itself is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenProblem {
    /// It is larger than the bound.
    TooLong,
    /// It is not three parts of base64 with JSON in them.
    Malformed,
    /// Its algorithm is not among those that the settings allow, or does not fit the key.
    Algorithm,
    /// No key has its `kid`.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// It has expired, or does not say when it expires.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// Another issuer made it.
    Issuer,
    /// It is meant for another audience.
    Audience,
    /// It has a critical header that is not understood.
    Critical,
}

impl TokenProblem {
    /// All problems, for counters.
    pub const ALL: [Self; 10] = [
        Self::TooLong,
        Self::Malformed,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Expired,
        Self::NotYetValid,
        Self::Issuer,
        Self::Audience,
        Self::Critical,
    ];

    /// A word for it, in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for TokenProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
