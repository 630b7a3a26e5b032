//! An HTTP/1.1 client for the servers that Tidegate asks: its own admin listener, and databases with a JSON interface.
//!
//! Idle connections are used again. A request is sent a second time only if no byte of it was written, so a write is never
//! done twice by the client.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::regular_file;

/// The largest reply that is read.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// The most idle connections that are kept.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// Host and port.
    Http(String),
    /// Host and port, with TLS.
    Https(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The text is not such an address.
#[derive(Clone, Debug)]
pub struct AddressError(String);

/// Which certificates a server with TLS must have.
#[derive(Clone, Copy, Debug)]
pub enum TrustedRoots<'a> {
    /// Signed by a root certificate of the system.
    System,
    /// Signed by a certificate of this PEM file.
    File(&'a Path),
}

/// Sends requests to one server.
pub struct HttpClient {
    address: HttpAddress,
    host: HeaderValue,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl HttpClient {
    /// A client for a server. Does not connect yet. Returns the reason if the certificates cannot be used.
    pub fn new(address: HttpAddress, roots: TrustedRoots<'_>) -> Result<Self, String> {
        let tls = match address {
            HttpAddress::Https(_) => Some(Arc::new(tls_config(roots)?)),
            HttpAddress::Http(_) | HttpAddress::Unix(_) => None,
        };
        let host = match &address {
            HttpAddress::Http(host) | HttpAddress::Https(host) => HeaderValue::from_str(host).ok(),
            HttpAddress::Unix(_) => None,
        };
        let host = host.unwrap_or_else(|| HeaderValue::from_static("localhost"));
        Ok(Self { address, host, tls, idle: Mutex::default() })
    }

    /// Where the server is.
    pub fn address(&self) -> &HttpAddress {
        &self.address
    }

    /// Sends a request, and reads the whole reply. The target of the request is a path. `timeout` is for everything from the
    /// connection to the end of the reply. Returns the reason if there is no reply; the server may have got the request then.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
    ) -> Result<Response<Bytes>, String> {
        tokio::time::timeout(timeout, self.exchange(request))
            .await
            .unwrap_or_else(|_| Err(format!("it did not answer within {timeout:?}")))
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Bytes>, String> {
        if !request.headers().contains_key(HOST) {
            request.headers_mut().insert(HOST, self.host.clone());
        }
        let mut is_new = false;
        let (mut sender, response) = loop {
            let idle = self.idle().pop();
            let mut sender = match idle {
                Some(sender) => sender,
                None => {
                    is_new = true;
                    self.connect().await?
                }
            };
            if sender.ready().await.is_err() && !is_new {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => break (sender, response),
                Err(mut error) => match error.take_message() {
                    // The server has closed the idle connection. Nothing was sent.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(error.into_error().to_string()),
                },
            }
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, REPLY_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        if sender.ready().await.is_ok() {
            let mut idle = self.idle();
            if idle.len() < IDLE_CONNECTIONS_MAX {
                idle.push(sender);
            }
        }
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let connect = |host: String| async move {
            let stream = TcpStream::connect(host).await?;
            stream.set_nodelay(true).map(|()| stream)
        };
        match &self.address {
            HttpAddress::Http(host) => start(connect(host.clone()).await.map_err(text)?).await,
            HttpAddress::Unix(path) => start(UnixStream::connect(path).await.map_err(text)?).await,
            HttpAddress::Https(host) => {
                let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name).trim_matches(['[', ']']);
                let name = ServerName::try_from(name.to_owned()).map_err(text)?;
                let tls = self.tls.clone().ok_or("it needs TLS")?;
                let stream = connect(host.clone()).await.map_err(text)?;
                start(TlsConnector::from(tls).connect(name, stream).await.map_err(text)?).await
            }
        }
    }
}

async fn start(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(text)?;
    // It ends with the last request; its errors are those of the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

fn tls_config(trusted: TrustedRoots<'_>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match trusted {
        TrustedRoots::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no root certificates (hint: install ca-certificates)".to_owned());
            }
        }
        TrustedRoots::File(path) => {
            let problem = |error: &dyn fmt::Display| {
                format!(
                    "cannot use the certificates in `{}`: {error} (hint: name a PEM file with CA certificates)",
                    path.display()
                )
            };
            let file = regular_file::open(path).map_err(|error| problem(&error))?;
            for certificate in CertificateDer::pem_reader_iter(file) {
                roots.add(certificate.map_err(|error| problem(&error))?).map_err(|error| problem(&error))?;
            }
            if roots.is_empty() {
                return Err(problem(&"it has none"));
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(text)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl FromStr for HttpAddress {
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

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(host) => write!(f, "http://{host}"),
            Self::Https(host) => write!(f, "https://{host}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an address (hint: http://127.0.0.1:9090, https://host:9090 or unix:/run/tidegate.sock)",
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
            assert_eq!(text.parse::<HttpAddress>().unwrap().to_string(), shown);
        }
        for text in
            ["", "off", "http://", "http://node-1", "ftp://node-1:9090", "http://node-1:9090/v1", "unix:"]
        {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }
}
