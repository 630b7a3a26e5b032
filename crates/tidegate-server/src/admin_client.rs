//! Sends requests to the admin listener of a server, for the commands that operators run.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueHint};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::output::Failure;
use crate::serve::Secret;
use crate::serve::settings::read_secret;
use crate::text;

/// How long a request may take, from the connection to the end of the reply.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest reply that is read.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Maximum characters of a reply shown in an error.
const SHOWN_CHARS_MAX: usize = 300;

/// Where the server is, and what it asks for.
#[derive(Args, Debug)]
pub struct AdminArgs {
    /// The admin listener of the server: http://127.0.0.1:9090, https://host:9090, or unix:/run/tidegate.sock
    #[arg(
        long,
        env = "TIDEGATE_ADMIN",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        help_heading = "Server"
    )]
    admin: AdminAddress,

    /// Token of the admin listener. Other users can see flags, so prefer a file or the environment
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Server"
    )]
    admin_token: Option<Secret>,

    /// Read the admin token from this file
    #[arg(long, env = "TIDEGATE_ADMIN_TOKEN_FILE", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Server")]
    admin_token_file: Option<PathBuf>,

    /// CA certificates (PEM) to verify a server with https
    #[arg(long, env = "TIDEGATE_ADMIN_CA", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Server")]
    admin_ca: Option<PathBuf>,
}

/// The address of an admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AdminAddress {
    /// Host and port.
    Http(String),
    /// The same with TLS.
    Https(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The text is not such an address.
#[derive(Clone, Debug)]
struct AddressError(String);

/// Sends requests, each on a connection of its own.
#[derive(Debug)]
pub struct AdminClient {
    address: AdminAddress,
    token: Option<Secret>,
    tls: Option<Arc<ClientConfig>>,
    runtime: tokio::runtime::Runtime,
}

/// A reply with status 200.
#[derive(Debug)]
pub struct AdminReply {
    /// The header `x-tidegate-next`.
    pub next: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// Why a request had no effect.
#[derive(Debug)]
pub enum AdminError {
    /// The server refused it. Carries the reason, with a hint.
    Refused(String),
    /// The server cannot be reached, or cannot do it now. Carries the reason, with a hint.
    Unavailable(String),
}

impl AdminArgs {
    /// A client for this server.
    pub fn client(&self) -> Result<AdminClient, Failure> {
        let from_file = self.admin_token_file.as_deref().map(|path| read_secret("admin_token_file", path));
        let token = from_file.transpose().map_err(Failure::usage)?;
        let tls = match (&self.admin, &self.admin_ca) {
            (AdminAddress::Https(_), Some(path)) => Some(Arc::new(tls_config(path).map_err(Failure::usage)?)),
            (AdminAddress::Https(_), None) => {
                let hint = "name the CA certificates of the server with --admin-ca";
                return Err(Failure::usage(format!(
                    "https needs certificates to verify the server (hint: {hint})"
                )));
            }
            _ => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::usage(format!("cannot start the client: {error} (hint: try again)")))?;
        Ok(AdminClient {
            address: self.admin.clone(),
            token: self.admin_token.clone().or(token),
            tls,
            runtime,
        })
    }
}

impl AdminClient {
    /// Sends JSON. Returns the reply as JSON.
    pub fn json(&self, method: Method, path: &str, body: &Value) -> Result<Value, AdminError> {
        let reply = self.send(method, path, "application/json", body.to_string().into())?;
        serde_json::from_slice(&reply.body).map_err(|_| self.not_tidegate(&reply.body))
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Result<AdminReply, AdminError> {
        self.send(Method::GET, path, "", Bytes::new())
    }

    /// Sends a body.
    pub fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<AdminReply, AdminError> {
        let request = Request::builder().method(method).uri(path).body(Full::new(body));
        let mut request = request.map_err(|error| {
            AdminError::Refused(format!("the request cannot be sent: {error} (hint: check the arguments)"))
        })?;
        let headers = request.headers_mut();
        let host = match &self.address {
            AdminAddress::Http(host) | AdminAddress::Https(host) => HeaderValue::from_str(host).ok(),
            AdminAddress::Unix(_) => None,
        };
        headers.insert(HOST, host.unwrap_or_else(|| HeaderValue::from_static("localhost")));
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        if let Some(token) = &self.token {
            let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut bearer = bearer.map_err(|_| {
                AdminError::Refused(
                    "the admin token has characters that no header may have (hint: check it)".to_owned(),
                )
            })?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let sent = self.runtime.block_on(async {
            tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request))
                .await
                .unwrap_or_else(|_| Err(format!("it did not answer within {REQUEST_TIMEOUT:?}")))
        });
        let (status, reply) = sent.map_err(|problem| {
            AdminError::Unavailable(format!(
                "cannot reach the server at {}: {problem} (hint: is `tidegate serve` running? --admin says where its admin \
                 listener is)",
                self.address
            ))
        })?;
        if status == StatusCode::OK { Ok(reply) } else { Err(self.problem(status, &reply.body)) }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, AdminReply), String> {
        let io_error = |error: io::Error| error.to_string();
        match &self.address {
            AdminAddress::Http(host) => {
                exchange_over(TcpStream::connect(host).await.map_err(io_error)?, request).await
            }
            AdminAddress::Unix(path) => {
                exchange_over(UnixStream::connect(path).await.map_err(io_error)?, request).await
            }
            AdminAddress::Https(host) => {
                let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name).trim_matches(['[', ']']);
                let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
                let tls = self.tls.clone().ok_or("it needs TLS")?;
                let stream = TcpStream::connect(host).await.map_err(io_error)?;
                let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(io_error)?;
                exchange_over(stream, request).await
            }
        }
    }

    /// A reply with another status than 200.
    fn problem(&self, status: StatusCode, body: &[u8]) -> AdminError {
        let Ok(problem) = serde_json::from_slice::<Value>(body) else { return self.not_tidegate(body) };
        let detail = problem["detail"].as_str().unwrap_or("the server refused the request");
        let hint = match (status, problem["hint"].as_str()) {
            (StatusCode::UNAUTHORIZED, _) => {
                Some("set TIDEGATE_ADMIN_TOKEN or --admin-token-file to the token of the server")
            }
            (_, hint) => hint,
        };
        let message = match hint {
            Some(hint) => format!("{detail} (hint: {hint})"),
            None => detail.to_owned(),
        };
        if status.is_server_error() { AdminError::Unavailable(message) } else { AdminError::Refused(message) }
    }

    fn not_tidegate(&self, body: &[u8]) -> AdminError {
        let shown = text::printable(body.trim_ascii(), SHOWN_CHARS_MAX);
        AdminError::Unavailable(format!(
            "the server at {} is not the admin listener of Tidegate: it replied `{shown}` (hint: check --admin)",
            self.address
        ))
    }
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, AdminReply), String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // It ends with the request; its errors are those of the request.
    tokio::spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let next =
        response.headers().get("x-tidegate-next").and_then(|next| next.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, AdminReply { next, body }))
}

/// Trusts the certificates of this file.
fn tls_config(path: &PathBuf) -> Result<ClientConfig, String> {
    let problem = |error: &dyn fmt::Display| {
        format!(
            "cannot use the certificates in `{}`: {error} (hint: --admin-ca takes a PEM file)",
            path.display()
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| problem(&error))? {
        roots.add(certificate.map_err(|error| problem(&error))?).map_err(|error| problem(&error))?;
    }
    if roots.is_empty() {
        return Err(problem(&"it has none"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(&error))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Refused(message) => Self::problem(message),
            AdminError::Unavailable(message) => Self::usage(message),
        }
    }
}

impl FromStr for AdminAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let host = |host: &str| {
            let host = host.strip_suffix('/').unwrap_or(host);
            let host = match host.strip_prefix(':') {
                Some(port) => format!("127.0.0.1:{port}"),
                None => host.to_owned(),
            };
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
            if has_port && !host.contains('/') { Ok(host) } else { Err(AddressError(text.to_owned())) }
        };
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        match text.split_once("://") {
            Some(("http", rest)) => host(rest).map(Self::Http),
            Some(("https", rest)) => host(rest).map(Self::Https),
            Some(_) => Err(AddressError(text.to_owned())),
            None => match text.strip_prefix("tls:") {
                Some(rest) => host(rest).map(Self::Https),
                None => host(text).map(Self::Http),
            },
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(host) => write!(f, "http://{host}"),
            Self::Https(host) => write!(f, "https://{host}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not the address of an admin listener (hint: http://127.0.0.1:9090, https://host:9090 or \
             unix:/run/tidegate.sock)",
            self.0
        )
    }
}

impl std::error::Error for AddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let cases = [
            ("http://127.0.0.1:9090", "http://127.0.0.1:9090"),
            ("http://node-1:9090/", "http://node-1:9090"),
            ("127.0.0.1:9090", "http://127.0.0.1:9090"),
            (":9090", "http://127.0.0.1:9090"),
            ("[::1]:9090", "http://[::1]:9090"),
            ("https://node-1:9090", "https://node-1:9090"),
            ("tls:127.0.0.1:9090", "https://127.0.0.1:9090"),
            ("unix:/run/tidegate.sock", "unix:/run/tidegate.sock"),
        ];
        for (text, shown) in cases {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), shown);
        }
        for text in
            ["", "off", "http://", "http://node-1", "ftp://node-1:9090", "http://node-1:9090/v1", "unix:"]
        {
            assert!(text.parse::<AdminAddress>().is_err(), "{text}");
        }
    }
}
