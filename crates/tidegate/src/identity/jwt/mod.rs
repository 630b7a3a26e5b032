//! Users from JSON Web Tokens (RFC 7519), in the compact form of RFC 7515.
//!
//! ```text
//! Authorization: Bearer TOKEN
//!   -> verifier.rs    splits the token, checks its signature, then its claims
//!   -> algorithm.rs   the settings name the algorithms; a token cannot choose another one
//!   -> key_set.rs     keys from a JWKS; each fits only the algorithms of its type
//!   -> claims.rs      times, issuer, audience, and the values for attributes
//!
//! refresh.rs          when to fetch a JWKS from its URL again; the fetch itself is the caller's
//! ```
//!
//! A token that is not accepted is no error: the attributes that come from it are missing, and a
//! [`TokenProblem`](super::TokenProblem) says why.

mod algorithm;
mod claims;
mod key_set;
mod refresh;
mod verifier;

pub use algorithm::{JwtAlgorithm, ParseJwtAlgorithmError};
pub use key_set::{JWKS_BYTES_MAX, JWKS_KEYS_MAX, KeySet, KeySetError};
pub use refresh::{KeyRefresh, REFRESH_INTERVAL_MIN};
pub use verifier::{JwtSettings, JwtSettingsError, JwtVerifier, LEEWAY_DEFAULT, LEEWAY_MAX, TOKEN_BYTES_MAX};
