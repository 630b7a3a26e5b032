//! Verifies tokens.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use tidegate_core::Timestamp;

use super::algorithm::SignatureCheck;
use super::claims::Claims;
use super::{JwtAlgorithm, KeySet};
use crate::identity::{TokenProblem, VerifyToken};

/// The most bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The default of [`JwtSettings::leeway`].
pub const LEEWAY_DEFAULT: Duration = Duration::from_secs(30);
/// The most leeway. With more, expired tokens would be as good as valid ones.
pub const LEEWAY_MAX: Duration = Duration::from_secs(600);

/// Which tokens are accepted.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The algorithms. A token with another one is not accepted, whatever key it names. Either all share a secret (HS256
    /// and the like) or none does.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The issuer that a token must name as `iss`. `None` accepts any.
    pub issuer: Option<String>,
    /// A token must have one of these as `aud`. If empty, any audience is accepted, and none.
    pub audiences: Vec<String>,
    /// How much clocks may differ, at most [`LEEWAY_MAX`].
    pub leeway: Duration,
}

/// Verifies JSON Web Tokens.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::identity::jwt::{JwtAlgorithm, JwtSettings, JwtVerifier, KeySet};
/// use tidegate::identity::{Identity, Source};
///
/// let jwks = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// let settings = JwtSettings {
///     issuer: Some("https://login.example.org".to_owned()),
///     audiences: vec!["api".to_owned()],
///     ..JwtSettings::new([JwtAlgorithm::EdDsa])
/// };
/// let verifier = JwtVerifier::new(settings, KeySet::parse(jwks)?)?;
/// let identity = Identity::default().with_user(Source::claim("sub")).with_tokens(Arc::new(verifier));
/// # assert!(identity.uses_claims());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JwtVerifier {
    settings: JwtSettings,
    keys: RwLock<Arc<KeySet>>,
    on_unknown_key: Option<Box<dyn Fn() + Send + Sync>>,
}

/// The settings contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtSettingsError {
    /// No algorithm is named.
    NoAlgorithm,
    /// Algorithms with a shared secret and with public keys: a public key could be used as a secret.
    MixedAlgorithms,
    /// More leeway than [`LEEWAY_MAX`].
    Leeway,
}

impl JwtSettings {
    /// Accepts tokens with one of these algorithms, of any issuer and for any audience.
    pub fn new(algorithms: impl IntoIterator<Item = JwtAlgorithm>) -> Self {
        let algorithms = algorithms.into_iter().collect();
        Self { algorithms, issuer: None, audiences: Vec::new(), leeway: LEEWAY_DEFAULT }
    }

    fn check(&self) -> Result<(), JwtSettingsError> {
        let symmetric = self.algorithms.iter().filter(|algorithm| algorithm.is_symmetric()).count();
        if self.algorithms.is_empty() {
            return Err(JwtSettingsError::NoAlgorithm);
        }
        if symmetric != 0 && symmetric != self.algorithms.len() {
            return Err(JwtSettingsError::MixedAlgorithms);
        }
        if self.leeway > LEEWAY_MAX {
            return Err(JwtSettingsError::Leeway);
        }
        Ok(())
    }
}

impl JwtVerifier {
    /// A verifier with these keys. [`KeySet::default`] has none, until [`set_keys`](Self::set_keys).
    pub fn new(settings: JwtSettings, keys: KeySet) -> Result<Self, JwtSettingsError> {
        settings.check()?;
        Ok(Self { settings, keys: RwLock::new(Arc::new(keys)), on_unknown_key: None })
    }

    /// Calls this for each token whose key is not known: a reason to [fetch the keys](super::KeyRefresh) again. Clients
    /// can cause it at will, so it must return at once.
    #[must_use]
    pub fn with_unknown_key_hook(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_unknown_key = Some(Box::new(hook));
        self
    }

    /// Replaces the keys.
    pub fn set_keys(&self, keys: KeySet) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The claims of a valid token. Nothing in it is trusted before its signature has been checked.
    fn claims(&self, token: &str, now: Timestamp) -> Result<Claims, TokenProblem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenProblem::TooLong);
        }
        let malformed = || TokenProblem::Malformed;
        let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or_else(malformed)?;
        let header: Map<String, Value> =
            serde_json::from_slice(&decoded(header)?).map_err(|_| malformed())?;
        let (payload, signature) = (decoded(payload)?, decoded(signature)?);
        if header.contains_key("crit") {
            return Err(TokenProblem::Critical);
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or_else(malformed)?;
        let algorithm = self.settings.algorithms.iter().copied().find(|algorithm| algorithm.name() == name);
        let algorithm = algorithm.ok_or(TokenProblem::Algorithm)?;
        let id = header.get("kid").map(|id| id.as_str().ok_or_else(malformed)).transpose()?;
        let keys = self.keys();
        match algorithm.check(keys.find(id, algorithm)?, signed.as_bytes(), &signature) {
            SignatureCheck::Valid => {}
            SignatureCheck::Invalid => return Err(TokenProblem::Signature),
            SignatureCheck::WrongKeyType => return Err(TokenProblem::Algorithm),
        }
        let claims = Claims::read(&payload)?;
        claims.check(&self.settings, now)?;
        Ok(claims)
    }
}

impl VerifyToken for JwtVerifier {
    fn verify(
        &self,
        token: &str,
        claims: &[&str],
        now: Timestamp,
    ) -> Result<Vec<Option<String>>, TokenProblem> {
        let found = self.claims(token, now).inspect_err(|problem| {
            if let (TokenProblem::UnknownKey, Some(hook)) = (problem, &self.on_unknown_key) {
                hook();
            }
        })?;
        Ok(claims.iter().map(|name| found.value(name)).collect())
    }
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenProblem> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenProblem::Malformed)
}

/// Without the keys, which may be secret.
impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Display for JwtSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAlgorithm => f.write_str("no algorithm is named (hint: name those that the issuer uses)"),
            Self::MixedAlgorithms => f.write_str(
                "algorithms with a shared secret (HS256, HS384, HS512) and with public keys exclude each other",
            ),
            Self::Leeway => write!(f, "the leeway is more than {} seconds", LEEWAY_MAX.as_secs()),
        }
    }
}

impl std::error::Error for JwtSettingsError {}
