//! The keys of JSON Web Tokens, from a file or a URL.
//!
//! A file is read again when it changes. A URL is asked every five minutes, and at most every 30 seconds if a token has an
//! unknown key: issuers change keys without notice. While the URL is away, the last keys stay.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use tidegate::identity::VerifyToken;
use tidegate::identity::jwt::{JWKS_BYTES_MAX, JwtSettings, JwtVerifier, KeyRefresh, KeySet};
use tidegate::{Clock as _, Timestamp};
use tokio::sync::Notify;

use super::App;
use crate::http_client::{HttpAddress, HttpClient, TrustedRoots};
use crate::regular_file;

/// How often the URL is asked.
const FETCH_INTERVAL: Duration = Duration::from_secs(300);
/// How long the URL may take to answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the file is read.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Where keys are.
#[derive(Clone, Debug)]
pub enum KeyLocation {
    /// A file.
    File(PathBuf),
    /// A URL.
    Url(JwksUrl),
}

/// The URL of a JWKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl {
    address: HttpAddress,
    /// With the query.
    path: String,
    text: String,
}

/// The text is not such a URL.
#[derive(Clone, Debug)]
pub struct JwksUrlError(String);

/// A verifier of tokens, and where its keys come from.
#[derive(Clone)]
pub struct TokenKeys {
    verifier: Arc<JwtVerifier>,
    location: KeyLocation,
    client: Option<Arc<HttpClient>>,
    unknown_key: Arc<Notify>,
}

impl TokenKeys {
    /// Reads a file at once, and returns the problem if that fails. A URL is asked by [`watch`](Self::watch).
    pub fn new(location: KeyLocation, settings: JwtSettings) -> Result<Self, String> {
        let keys = match &location {
            KeyLocation::File(path) => read_file(path)?,
            KeyLocation::Url(_) => KeySet::default(),
        };
        let client = match &location {
            KeyLocation::File(_) => None,
            KeyLocation::Url(url) => {
                let client = HttpClient::new(url.address.clone(), TrustedRoots::System);
                Some(Arc::new(client.map_err(|error| format!("jwt_keys_url `{url}`: {error}"))?))
            }
        };
        let unknown_key = Arc::new(Notify::new());
        let notify = Arc::clone(&unknown_key);
        let verifier =
            JwtVerifier::new(settings, keys).map_err(|error| format!("jwt_algorithms: {error}"))?;
        let verifier = Arc::new(verifier.with_unknown_key_hook(move || notify.notify_one()));
        Ok(Self { verifier, location, client, unknown_key })
    }

    /// What verifies tokens.
    pub fn verifier(&self) -> Arc<dyn VerifyToken> {
        Arc::clone(&self.verifier) as Arc<dyn VerifyToken>
    }

    /// Keeps the keys current until the server drains.
    pub async fn watch(self, app: Arc<App>) {
        let until_drained = app.drain.wait();
        let watch = async {
            match (&self.location, &self.client) {
                (KeyLocation::Url(url), Some(client)) => self.watch_url(&app, url, client).await,
                (KeyLocation::File(path), _) => self.watch_file(&app, path).await,
                (KeyLocation::Url(_), None) => {}
            }
        };
        tokio::select! {
            () = watch => {}
            () = until_drained => {}
        }
    }

    async fn watch_file(&self, app: &App, path: &Path) {
        let mut last = None;
        loop {
            tokio::time::sleep(FILE_INTERVAL).await;
            let text = read_text(path);
            if last.as_ref() != Some(&text) {
                match text.as_deref().map_err(Clone::clone).and_then(parse) {
                    Ok(keys) => self.verifier.set_keys(keys),
                    Err(problem) => {
                        app.metrics.count_token_key_failure();
                        warn(path.display(), &problem);
                    }
                }
                last = Some(text);
            }
        }
    }

    async fn watch_url(&self, app: &App, url: &JwksUrl, client: &HttpClient) {
        let mut refresh = KeyRefresh::every(FETCH_INTERVAL);
        let now = || app.engine.clock().now();
        loop {
            if refresh.is_due(now()) {
                refresh.started(now());
                match fetch(url, client).await {
                    Ok(keys) => self.verifier.set_keys(keys),
                    Err(problem) => {
                        refresh.failed();
                        app.metrics.count_token_key_failure();
                        warn(url, &problem);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(time_until(refresh.next_fetch(), now())) => {}
                () = self.unknown_key.notified() => refresh.unknown_key(),
            }
        }
    }
}

fn time_until(next: Option<Timestamp>, now: Timestamp) -> Duration {
    next.map_or(Duration::ZERO, |next| Duration::from_nanos(next.as_nanos().saturating_sub(now.as_nanos())))
}

async fn fetch(url: &JwksUrl, client: &HttpClient) -> Result<KeySet, String> {
    let request =
        Request::get(&url.path).body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
    let response = client.send(request, FETCH_TIMEOUT).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("it answered with status {}", response.status()));
    }
    let text = str::from_utf8(response.body()).map_err(|_| "its answer is not UTF-8".to_owned())?;
    parse(text)
}

fn parse(text: &str) -> Result<KeySet, String> {
    KeySet::parse(text).map_err(|error| error.to_string())
}

fn read_file(path: &Path) -> Result<KeySet, String> {
    let keys = read_text(path).and_then(|text| parse(&text));
    keys.map_err(|problem| format!("jwt_keys_file `{}`: {problem}", path.display()))
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = regular_file::open(path)
        .map_err(|error| format!("cannot read it: {error} (hint: check the path)"))?;
    let bytes_max = JWKS_BYTES_MAX as u64 + 1;
    file.take(bytes_max).read_to_string(&mut text).map_err(|error| format!("cannot read it: {error}"))?;
    Ok(text)
}

fn warn(location: impl fmt::Display, problem: &str) {
    tracing::warn!(%location, problem, "cannot read the keys of tokens; the last ones stay in use (hint: check jwt_keys)");
}

impl FromStr for JwksUrl {
    type Err = JwksUrlError;

    fn from_str(text: &str) -> Result<Self, JwksUrlError> {
        let invalid = || JwksUrlError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(invalid()),
        };
        // After an IPv6 address in brackets, or a name.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = format!("{scheme}://{host}{}", if has_port { "" } else { port });
        let address = address.parse().map_err(|_| invalid())?;
        let path = format!("/{path}");
        hyper::Uri::from_str(&path).map_err(|_| invalid())?;
        Ok(Self { address, path, text: text.to_owned() })
    }
}

impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for JwksUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a URL of keys (hint: https://login.example.org/.well-known/jwks.json)", self.0)
    }
}

impl std::error::Error for JwksUrlError {}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeys").field("location", &self.location).finish_non_exhaustive()
    }
}
