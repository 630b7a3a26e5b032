//! Keys from a JSON Web Key Set (RFC 7517).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::RsaPublicKeyComponents;
use serde_json::{Map, Value};

use super::JwtAlgorithm;
use super::algorithm::KeyMaterial;
use crate::identity::TokenProblem;

/// The largest JWKS that is read.
pub const JWKS_BYTES_MAX: usize = 256 * 1024;
/// The most keys in a JWKS.
pub const JWKS_KEYS_MAX: usize = 128;

/// The keys that verify tokens.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    id: Option<Box<str>>,
    /// If the JWKS names one, the key is for it alone.
    algorithm: Option<JwtAlgorithm>,
    material: KeyMaterial,
}

/// The text is not a JWKS with usable keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetError(String);

impl KeySet {
    /// Reads a JWKS. Keys of unknown types, and keys for encryption, are skipped. It is an error if no key is left.
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        let error = |message: String| Err(KeySetError(message));
        if text.len() > JWKS_BYTES_MAX {
            return error(format!("the key set has more than {JWKS_BYTES_MAX} bytes"));
        }
        let json: Value = match serde_json::from_str(text) {
            Ok(json) => json,
            Err(problem) => return error(format!("the key set is not JSON: {problem}")),
        };
        let Some(keys) = json.get("keys").and_then(Value::as_array) else {
            return error("the key set has no list `keys`".to_owned());
        };
        if keys.len() > JWKS_KEYS_MAX {
            return error(format!("the key set has more than {JWKS_KEYS_MAX} keys"));
        }
        let mut read = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            match Key::read(key) {
                Ok(key) => read.extend(key),
                Err(problem) => return error(format!("key {} of the key set: {problem}", index + 1)),
            }
        }
        match read.is_empty() {
            true => error("the key set has no key that can verify a signature".to_owned()),
            false => Ok(Self { keys: read }),
        }
    }

    /// A secret that signer and verifier share, for HS256, HS384 and HS512. It must be as long as the digest.
    pub fn from_secret(secret: &[u8]) -> Self {
        Self { keys: vec![Key { id: None, algorithm: None, material: KeyMaterial::Secret(secret.to_vec()) }] }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key of a token. Without an id there must be only one that fits, so that no token makes several keys be tried.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<&KeyMaterial, TokenProblem> {
        let has_id = |key: &&Key| id.is_none_or(|id| key.id.as_deref() == Some(id));
        let mut fitting = self.keys.iter().filter(has_id).filter(|key| key.fits(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(&key.material),
            (None, _) if id.is_some() && self.keys.iter().any(|key| has_id(&key)) => {
                Err(TokenProblem::Algorithm)
            }
            _ => Err(TokenProblem::UnknownKey),
        }
    }
}

impl Key {
    /// `None` for a key that cannot verify tokens.
    fn read(json: &Value) -> Result<Option<Self>, String> {
        let Value::Object(fields) = json else { return Err("it is not an object".to_owned()) };
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let is_for_other_use = text("use").is_some_and(|usage| usage != "sig");
        let operations = fields.get("key_ops").and_then(Value::as_array);
        let cannot_verify =
            operations.is_some_and(|operations| !operations.iter().any(|one| one == "verify"));
        if is_for_other_use || cannot_verify {
            return Ok(None);
        }
        let algorithm = match text("alg").map(str::parse) {
            Some(Ok(algorithm)) => Some(algorithm),
            // Of an algorithm that is not supported.
            Some(Err(_)) => return Ok(None),
            None => None,
        };
        let Some(material) = read_material(fields, text("kty"), text("crv"))? else { return Ok(None) };
        Ok(Some(Self { id: text("kid").map(Into::into), algorithm, material }))
    }

    fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        self.algorithm.is_none_or(|own| own == algorithm) && algorithm.fits(&self.material)
    }
}

fn read_material(
    fields: &Map<String, Value>,
    kind: Option<&str>,
    curve: Option<&str>,
) -> Result<Option<KeyMaterial>, String> {
    let bytes = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str).map(|text| text.trim_end_matches('='));
        let bytes = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).filter(|bytes| !bytes.is_empty());
        bytes.ok_or_else(|| format!("`{name}` is missing or not base64url"))
    };
    let point = |length: usize| -> Result<Vec<u8>, String> {
        let (x, y) = (bytes("x")?, bytes("y")?);
        let is_whole = x.len() == length && y.len() == length;
        is_whole
            .then(|| [&[4][..], &x, &y].concat())
            .ok_or_else(|| "`x` or `y` has the wrong length".to_owned())
    };
    // Some issuers write a zero before the number.
    let number = |name: &str| {
        bytes(name).map(|bytes| bytes[bytes.iter().take_while(|byte| **byte == 0).count()..].to_vec())
    };
    Ok(Some(match (kind, curve) {
        (Some("RSA"), _) => KeyMaterial::Rsa(RsaPublicKeyComponents { n: number("n")?, e: number("e")? }),
        (Some("EC"), Some("P-256")) => KeyMaterial::P256(point(32)?),
        (Some("EC"), Some("P-384")) => KeyMaterial::P384(point(48)?),
        (Some("OKP"), Some("Ed25519")) => KeyMaterial::Ed25519(bytes("x")?),
        (Some("oct"), _) => KeyMaterial::Secret(bytes("k")?),
        (Some(_), _) => return Ok(None),
        (None, _) => return Err("`kty` is missing".to_owned()),
    }))
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for KeySetError {}
