//! Sends requests to the admin listener of a server, for the commands that operators run.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueHint};
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde_json::Value;

use crate::http_client::{HttpAddress, HttpClient, TrustedRoots};
use crate::output::Failure;
use crate::serve::Secret;
use crate::serve::settings::read_secret;
use crate::text;

/// How long a request may take, from the connection to the end of the reply.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
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
    admin: HttpAddress,

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

    /// CA certificates (PEM) to verify a server with https, instead of the system's
    #[arg(long, env = "TIDEGATE_ADMIN_CA", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Server")]
    admin_ca: Option<PathBuf>,
}

/// Sends requests.
#[derive(Debug)]
pub struct AdminClient {
    http: HttpClient,
    token: Option<Secret>,
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
        let roots = self.admin_ca.as_deref().map_or(TrustedRoots::System, TrustedRoots::File);
        let http = HttpClient::new(self.admin.clone(), roots).map_err(Failure::usage)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::usage(format!("cannot start the client: {error} (hint: try again)")))?;
        Ok(AdminClient { http, token: self.admin_token.clone().or(token), runtime })
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

    /// Gets a path. Returns the reply as JSON.
    pub fn get_json(&self, path: &str) -> Result<Value, AdminError> {
        let reply = self.get(path)?;
        serde_json::from_slice(&reply.body).map_err(|_| self.not_tidegate(&reply.body))
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
        let response =
            self.runtime.block_on(self.http.send(request, REQUEST_TIMEOUT)).map_err(|problem| {
                AdminError::Unavailable(format!(
                    "cannot reach the server at {}: {problem} (hint: is `tidegate serve` running? --admin says where its \
                     admin listener is)",
                    self.http.address()
                ))
            })?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(self.problem(head.status, &body));
        }
        let next = head.headers.get("x-tidegate-next").and_then(|next| next.to_str().ok()).map(str::to_owned);
        Ok(AdminReply { next, body })
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
            self.http.address()
        ))
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Refused(message) => Self::problem(message),
            AdminError::Unavailable(message) => Self::usage(message),
        }
    }
}
