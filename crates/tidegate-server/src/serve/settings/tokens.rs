//! Settings of tokens: which JSON Web Tokens are accepted, and where their keys are.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use tidegate::identity::jwt::{JwtAlgorithm, JwtSettings};

use super::values;
use crate::serve::token_keys::{JwksUrl, KeyLocation, TokenKeys};

/// The settings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tokens")]
pub struct TokenArgs {
    /// The public keys of the tokens in `Authorization: Bearer`, as a JWKS, for --user-from claim:NAME
    #[arg(long, env = "TIDEGATE_JWT_KEYS_FILE", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub jwt_keys_file: Option<PathBuf>,

    /// The same from a URL, which is asked every 5 minutes, and after a token with an unknown key
    #[arg(long, env = "TIDEGATE_JWT_KEYS_URL", value_name = "URL", value_hint = ValueHint::Url)]
    pub jwt_keys_url: Option<JwksUrl>,

    /// The algorithms that tokens may use; a token cannot choose another one
    #[arg(
        long,
        env = "TIDEGATE_JWT_ALGORITHMS",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "RS256,ES256,EdDSA"
    )]
    pub jwt_algorithms: Vec<JwtAlgorithm>,

    /// The issuer that tokens must name as `iss`. Default: any
    #[arg(long, env = "TIDEGATE_JWT_ISSUER", value_name = "TEXT")]
    pub jwt_issuer: Option<String>,

    /// The audiences of which tokens must name one as `aud`. Default: any
    #[arg(long, env = "TIDEGATE_JWT_AUDIENCE", value_name = "NAMES", value_delimiter = ',')]
    pub jwt_audience: Vec<String>,

    /// How much the clocks of the issuer and of this machine may differ
    #[arg(long, env = "TIDEGATE_JWT_LEEWAY", value_name = "TIME", default_value = "30s",
        value_parser = values::jwt_leeway)]
    pub jwt_leeway: Duration,
}

impl TokenArgs {
    /// The keys, if the settings say where they are. Returns the problem if they cannot be used.
    pub(super) fn token_keys(&self) -> Result<Option<TokenKeys>, String> {
        let location = match (&self.jwt_keys_file, &self.jwt_keys_url) {
            (None, None) => return Ok(None),
            (Some(path), None) => KeyLocation::File(path.clone()),
            (None, Some(url)) => KeyLocation::Url(url.clone()),
            (Some(_), Some(_)) => {
                return Err(
                    "jwt_keys_file and jwt_keys_url are both set (hint: set only one of them)".to_owned()
                );
            }
        };
        let settings = JwtSettings {
            issuer: self.jwt_issuer.clone(),
            audiences: self.jwt_audience.clone(),
            leeway: self.jwt_leeway,
            ..JwtSettings::new(self.jwt_algorithms.iter().copied())
        };
        TokenKeys::new(location, settings).map(Some)
    }
}
