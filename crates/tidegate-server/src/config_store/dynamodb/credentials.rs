//! The credentials that sign requests: from the environment, from the container, or from the EC2 instance.
//!
//! The order is that of the AWS tools. Profiles (`~/.aws`) and web identity tokens are not read.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use tidegate::config::ConfigStoreError;
use tokio::sync::Mutex;

use super::url::parse_endpoint;
use crate::http_client::{HttpAddress, HttpClient, TrustedRoots};

/// How long a request for credentials may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Credentials are fetched again when they are valid for less than this.
const REFRESH_BEFORE_S: i64 = 300;
/// Where containers of ECS ask, and where EC2 instances ask.
const CONTAINER_ENDPOINT: &str = "http://169.254.170.2";
const INSTANCE_ENDPOINT: &str = "http://169.254.169.254";
const INSTANCE_ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";
/// How long a token for the metadata of the instance is valid.
const INSTANCE_TOKEN_TTL_S: &str = "21600";

/// What signs a request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    /// Seconds since 1970, if they expire.
    pub expires_at: Option<i64>,
}

/// Gets credentials, and keeps them while they are valid.
pub(super) struct CredentialsProvider {
    source: Source,
    cached: Mutex<Option<Arc<Credentials>>>,
}

enum Source {
    Environment(Arc<Credentials>),
    Container {
        client: HttpClient,
        path: String,
        token: ContainerToken,
    },
    Instance(HttpClient),
    /// None is configured. Carries the reason.
    Missing(&'static str),
}

enum ContainerToken {
    None,
    Text(String),
    /// Read for each request, because its content changes.
    File(PathBuf),
}

/// The reply of the container and of the instance.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Fetched {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl CredentialsProvider {
    /// `variable` reads the environment. Returns the reason and a hint if a variable is not valid.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        Ok(Self { source: Source::new(variable)?, cached: Mutex::default() })
    }

    /// Credentials that are valid at this time, in seconds since 1970.
    pub async fn get(&self, now_s: i64) -> Result<Arc<Credentials>, ConfigStoreError> {
        if let Source::Environment(credentials) = &self.source {
            return Ok(Arc::clone(credentials));
        }
        // Others wait, so that one request is enough for all.
        let mut cached = self.cached.lock().await;
        let valid_for_s = |credentials: &Credentials| {
            credentials.expires_at.map_or(i64::MAX, |expires_at| expires_at.saturating_sub(now_s))
        };
        if let Some(credentials) = &*cached
            && valid_for_s(credentials) > REFRESH_BEFORE_S
        {
            return Ok(Arc::clone(credentials));
        }
        match self.source.fetch().await {
            Ok(fetched) => Ok(Arc::clone(cached.insert(Arc::new(fetched)))),
            Err(reason) => match &*cached {
                Some(old) if valid_for_s(old) > 0 => Ok(Arc::clone(old)),
                _ => Err(ConfigStoreError::Unavailable(
                    format!(
                        "no credentials for DynamoDB: {reason} (hint: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                         give the container or the instance a role)"
                    )
                    .into(),
                )),
            },
        }
    }

    /// Forgets credentials that DynamoDB has refused, so that the next call fetches them again.
    pub async fn forget(&self) {
        *self.cached.lock().await = None;
    }
}

impl Source {
    fn new(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret_access_key)) => {
                let session_token = variable("AWS_SESSION_TOKEN");
                let credentials =
                    Credentials { access_key_id, secret_access_key, session_token, expires_at: None };
                return Ok(Self::Environment(Arc::new(credentials)));
            }
            (None, None) => {}
            _ => return Err("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither".to_owned()),
        }
        let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let full = relative
            .map(|path| format!("{CONTAINER_ENDPOINT}{path}"))
            .or_else(|| variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"));
        if let Some(uri) = full {
            return Self::container(&uri, variable);
        }
        if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(Self::Missing("AWS_EC2_METADATA_DISABLED is set, and nothing else names credentials"));
        }
        let endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let endpoint = endpoint.as_deref().unwrap_or(INSTANCE_ENDPOINT);
        let (address, _) = parse_endpoint(endpoint)
            .map_err(|error| format!("AWS_EC2_METADATA_SERVICE_ENDPOINT: {error}"))?;
        Ok(Self::Instance(HttpClient::new(address, TrustedRoots::System)?))
    }

    fn container(uri: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let invalid = |problem: &str| format!("AWS_CONTAINER_CREDENTIALS_FULL_URI: {problem}");
        let scheme_end = uri.find("://").map_or(0, |at| at + 3);
        let path_start = uri[scheme_end..].find('/').map_or(uri.len(), |at| scheme_end + at);
        let (endpoint, path) = uri.split_at(path_start);
        let (address, host) = parse_endpoint(endpoint).map_err(|error| invalid(&error))?;
        // Without TLS only to the machine itself: the reply contains secrets.
        if matches!(address, HttpAddress::Http(_)) && !is_local(&host) {
            return Err(invalid("http is only allowed for this machine (hint: use https)"));
        }
        let file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from);
        let token = match (file, variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
            (Some(file), _) => ContainerToken::File(file),
            (None, Some(text)) => ContainerToken::Text(text),
            (None, None) => ContainerToken::None,
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self::Container { client: HttpClient::new(address, TrustedRoots::System)?, path, token })
    }

    async fn fetch(&self) -> Result<Credentials, String> {
        match self {
            Self::Environment(credentials) => Ok(Credentials::clone(credentials)),
            Self::Missing(reason) => Err((*reason).to_owned()),
            Self::Container { client, path, token } => {
                let token = match token {
                    ContainerToken::None => None,
                    ContainerToken::Text(text) => Some(text.clone()),
                    ContainerToken::File(file) => {
                        let read = tokio::fs::read_to_string(file).await;
                        Some(
                            read.map_err(|error| format!("`{}`: {error}", file.display()))?.trim().to_owned(),
                        )
                    }
                };
                let header = token.as_deref().map(|token| (AUTHORIZATION.as_str(), token));
                parse(&send(client, Method::GET, path, header).await?)
            }
            Self::Instance(client) => {
                let ttl = ("x-aws-ec2-metadata-token-ttl-seconds", INSTANCE_TOKEN_TTL_S);
                let token = send(client, Method::PUT, "/latest/api/token", Some(ttl)).await?;
                let token = std::str::from_utf8(&token).map_err(|error| error.to_string())?;
                let header = Some(("x-aws-ec2-metadata-token", token));
                let roles = send(client, Method::GET, INSTANCE_ROLE_PATH, header).await?;
                let roles = String::from_utf8_lossy(&roles);
                let role = roles.lines().next().filter(|role| !role.is_empty());
                let role = role.ok_or("the instance has no role")?;
                parse(&send(client, Method::GET, &format!("{INSTANCE_ROLE_PATH}{role}"), header).await?)
            }
        }
    }
}

/// Whether a host, with or without a port, is this machine or its link-local endpoints.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(name, _)| !name.ends_with(':')).map_or(host, |(name, _)| name);
    let name = name.trim_matches(['[', ']']);
    let is_local_address = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local(),
        // EKS Pod Identity.
        std::net::IpAddr::V6(v6) => v6.is_loopback() || v6.to_string() == "fd00:ec2::23",
    };
    name == "localhost" || name.parse().is_ok_and(is_local_address)
}

async fn send(
    client: &HttpClient,
    method: Method,
    path: &str,
    header: Option<(&str, &str)>,
) -> Result<Bytes, String> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::new())).map_err(|error| error.to_string())?;
    let from = client.address();
    let reply: Response<Bytes> = client
        .send(request, REQUEST_TIMEOUT)
        .await
        .map_err(|error| format!("{from} does not answer: {error}"))?;
    match reply.status() {
        StatusCode::OK => Ok(reply.into_body()),
        status => Err(format!("{from} answered with status {status}")),
    }
}

fn parse(reply: &[u8]) -> Result<Credentials, String> {
    // Without serde's reason, which may repeat a part of the secret.
    let fetched: Fetched =
        serde_json::from_slice(reply).map_err(|_| "the reply does not contain credentials".to_owned())?;
    let expires_at = match &fetched.expiration {
        Some(text) => {
            let parsed: jiff::Timestamp =
                text.parse().map_err(|_| format!("the expiration {text:?} is not a time"))?;
            Some(parsed.as_second())
        }
        None => None,
    };
    Ok(Credentials {
        access_key_id: fetched.access_key_id,
        secret_access_key: fetched.secret_access_key,
        session_token: fetched.token,
        expires_at,
    })
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Environment(_) => "environment",
            Source::Container { .. } => "container",
            Source::Instance(_) => "instance",
            Source::Missing(_) => "none",
        };
        f.debug_struct("CredentialsProvider").field("source", &source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const NOW_S: i64 = 1_767_225_600;

    /// An endpoint that has these replies for requests that begin with a line and have a header line. Others get 404.
    async fn endpoint(replies: Vec<(&'static str, &'static str, String)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
                let request = String::from_utf8(request).unwrap();
                let reply = replies.iter().find(|(line, header, _)| {
                    request.starts_with(&format!("{line} ")) && request.contains(&format!("\r\n{header}\r\n"))
                });
                let (status, body) = reply.map_or(("404 Not Found", ""), |(_, _, body)| ("200 OK", body));
                let length = body.len();
                let reply = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    fn reply(id: &str, expiration: &str) -> String {
        format!(
            r#"{{"AccessKeyId": "{id}", "SecretAccessKey": "s", "Token": "t", "Expiration": "{expiration}"}}"#
        )
    }

    fn provider(variables: &[(&str, &str)]) -> Result<CredentialsProvider, String> {
        CredentialsProvider::new(|name| {
            variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[tokio::test]
    async fn the_environment_comes_first() {
        let variables = [
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/"),
        ];
        let credentials = provider(&variables).unwrap().get(NOW_S).await.unwrap();
        assert_eq!((&*credentials.access_key_id, &credentials.session_token), ("id", &None));
        assert!(!format!("{credentials:?}").contains("secret"));
        assert!(provider(&variables[..1]).is_err());
    }

    #[tokio::test]
    async fn a_container_is_asked_again_before_its_credentials_expire() {
        let soon = reply("one", "2026-01-01T00:02:00Z");
        let endpoint = endpoint(vec![("GET /creds/1", "authorization: token", soon)]).await;
        let uri = format!("{endpoint}/creds/1");
        let variables =
            [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*uri), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token")];
        let provider = provider(&variables).unwrap();
        // They are valid for two minutes, which is less than wanted, so each call asks again.
        let first = provider.get(NOW_S).await.unwrap();
        let second = provider.get(NOW_S).await.unwrap();
        assert_eq!((&first, first.expires_at), (&second, Some(NOW_S + 120)));
        assert!(!Arc::ptr_eq(&first, &second));
    }

    #[tokio::test]
    async fn an_instance_is_asked_for_its_role() {
        let header = "x-aws-ec2-metadata-token: secret-token";
        let role = "/latest/meta-data/iam/security-credentials/";
        let endpoint = endpoint(vec![
            (
                "PUT /latest/api/token",
                "x-aws-ec2-metadata-token-ttl-seconds: 21600",
                "secret-token".to_owned(),
            ),
            (format!("GET {role}").leak(), header, "node-role".to_owned()),
            (format!("GET {role}node-role").leak(), header, reply("role", "2026-01-01T06:00:00Z")),
        ])
        .await;
        let provider = provider(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &endpoint)]).unwrap();
        let first = provider.get(NOW_S).await.unwrap();
        assert_eq!((&*first.access_key_id, first.session_token.as_deref()), ("role", Some("t")));
        assert!(Arc::ptr_eq(&first, &provider.get(NOW_S).await.unwrap()));
        provider.forget().await;
        assert!(!Arc::ptr_eq(&first, &provider.get(NOW_S).await.unwrap()));
    }

    #[tokio::test]
    async fn missing_credentials_are_an_error_with_a_hint() {
        let away = provider(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")]).unwrap();
        let disabled = provider(&[("AWS_EC2_METADATA_DISABLED", "true")]).unwrap();
        for provider in [away, disabled] {
            let error = provider.get(NOW_S).await.unwrap_err().to_string();
            assert!(error.contains("(hint: set AWS_ACCESS_KEY_ID"), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_asked_for_over_the_network_without_tls() {
        for uri in ["http://10.0.0.1/", "http://example.com:80/", "http://127.0.0.1.example.com/", "ftp://x/"]
        {
            assert!(provider(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)]).is_err(), "{uri}");
        }
        for uri in
            ["http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]:80/v1", "http://localhost:1/"]
        {
            assert!(provider(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)]).is_ok(), "{uri}");
        }
    }
}
