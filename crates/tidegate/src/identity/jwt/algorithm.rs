//! Signature algorithms, and which keys fit them.

use std::fmt;
use std::str::FromStr;

use ring::{hmac, signature};

/// A signature algorithm of JSON Web Tokens. There is no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JwtAlgorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 and SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// RSA with PSS and SHA-384.
    Ps384,
    /// RSA with PSS and SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

use JwtAlgorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};

/// The key material of one key. Its type determines which algorithms it fits.
pub(super) enum KeyMaterial {
    Rsa(signature::RsaPublicKeyComponents<Vec<u8>>),
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Secret(Vec<u8>),
}

/// What became of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    Valid,
    Invalid,
    /// The key is not one for this algorithm.
    WrongKeyType,
}

impl JwtAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 12] =
        [Rs256, Rs384, Rs512, Ps256, Ps384, Ps512, Es256, Es384, EdDsa, Hs256, Hs384, Hs512];

    /// The name in a token.
    pub fn name(self) -> &'static str {
        match self {
            Rs256 => "RS256",
            Rs384 => "RS384",
            Rs512 => "RS512",
            Ps256 => "PS256",
            Ps384 => "PS384",
            Ps512 => "PS512",
            Es256 => "ES256",
            Es384 => "ES384",
            EdDsa => "EdDSA",
            Hs256 => "HS256",
            Hs384 => "HS384",
            Hs512 => "HS512",
        }
    }

    /// Whether signer and verifier share a secret.
    pub fn is_symmetric(self) -> bool {
        matches!(self, Hs256 | Hs384 | Hs512)
    }

    /// Whether the key is one for this algorithm. A secret must be as long as the digest (RFC 7518).
    pub(super) fn fits(self, key: &KeyMaterial) -> bool {
        match key {
            KeyMaterial::Rsa(_) => matches!(self, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            KeyMaterial::P256(_) => self == Es256,
            KeyMaterial::P384(_) => self == Es384,
            KeyMaterial::Ed25519(_) => self == EdDsa,
            KeyMaterial::Secret(secret) => {
                self.hmac().is_some_and(|hmac| secret.len() >= hmac.digest_algorithm().output_len())
            }
        }
    }

    /// Checks a signature.
    pub(super) fn check(self, key: &KeyMaterial, message: &[u8], signature: &[u8]) -> SignatureCheck {
        if !self.fits(key) {
            return SignatureCheck::WrongKeyType;
        }
        let result = match (key, self.rsa(), self.hmac()) {
            (KeyMaterial::Rsa(key), Some(rsa), _) => key.verify(rsa, message, signature),
            (KeyMaterial::Secret(secret), _, Some(hmac)) => {
                hmac::verify(&hmac::Key::new(hmac, secret), message, signature)
            }
            (KeyMaterial::P256(key), ..) => {
                public(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (KeyMaterial::P384(key), ..) => {
                public(&signature::ECDSA_P384_SHA384_FIXED, key).verify(message, signature)
            }
            (KeyMaterial::Ed25519(key), ..) => public(&signature::ED25519, key).verify(message, signature),
            (KeyMaterial::Rsa(_) | KeyMaterial::Secret(_), ..) => return SignatureCheck::WrongKeyType,
        };
        if result.is_ok() { SignatureCheck::Valid } else { SignatureCheck::Invalid }
    }

    fn rsa(self) -> Option<&'static signature::RsaParameters> {
        Some(match self {
            Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn hmac(self) -> Option<hmac::Algorithm> {
        Some(match self {
            Hs256 => hmac::HMAC_SHA256,
            Hs384 => hmac::HMAC_SHA384,
            Hs512 => hmac::HMAC_SHA512,
            _ => return None,
        })
    }
}

fn public<'k>(
    algorithm: &'static dyn signature::VerificationAlgorithm,
    key: &'k [u8],
) -> signature::UnparsedPublicKey<&'k [u8]> {
    signature::UnparsedPublicKey::new(algorithm, key)
}

/// The text is not the name of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseJwtAlgorithmError(());

impl FromStr for JwtAlgorithm {
    type Err = ParseJwtAlgorithmError;

    fn from_str(text: &str) -> Result<Self, ParseJwtAlgorithmError> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        found.ok_or(ParseJwtAlgorithmError(()))
    }
}

impl fmt::Display for JwtAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ParseJwtAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = JwtAlgorithm::ALL.map(JwtAlgorithm::name);
        write!(f, "write one of {}", names.join(", "))
    }
}

impl std::error::Error for ParseJwtAlgorithmError {}

/// The type alone: a secret must not appear in a log.
impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa(_) => "Rsa",
            Self::P256(_) => "P256",
            Self::P384(_) => "P384",
            Self::Ed25519(_) => "Ed25519",
            Self::Secret(_) => "Secret",
        })
    }
}
