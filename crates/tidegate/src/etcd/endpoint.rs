//! HTTP/1.1 to one member of etcd. Idle connections are used again.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

use super::url::Member;
use crate::sync::lock;

/// The largest reply that is read. The leases of a plan's keys must fit.
const REPLY_BYTES_MAX: usize = 8 << 20;
/// The most idle connections that are kept to one member.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// One member.
pub(super) struct Endpoint {
    member: Member,
    host: HeaderValue,
    tls: Option<Arc<ClientConfig>>,
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

/// The reply of a member.
pub(super) struct HttpReply {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Endpoint {
    /// Connects later.
    pub fn new(member: Member, tls: Option<Arc<ClientConfig>>) -> Self {
        let host = HeaderValue::try_from(member.to_string());
        // The text of a member has only characters that a header may have.
        let host = host.unwrap_or_else(|_| HeaderValue::from_static("etcd"));
        Self { member, host, tls, idle: Mutex::default() }
    }

    /// Sends a request and reads the whole reply, or returns why there is none. The member may have got the request then.
    /// Dropping the future closes its connection.
    pub async fn post(
        &self,
        path: &'static str,
        authorization: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<HttpReply, String> {
        let mut request = Request::post(path).body(Full::new(body)).map_err(text)?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        let (mut connection, response) = loop {
            let idle = lock(&self.idle).pop();
            let is_idle = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            if connection.ready().await.is_err() && is_idle {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => break (connection, response),
                Err(mut error) => match error.take_message() {
                    // The member has closed the idle connection. Nothing was sent.
                    Some(unsent) if is_idle => request = unsent,
                    _ => return Err(error.into_error().to_string()),
                },
            }
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, REPLY_BYTES_MAX).collect().await.map_err(text)?.to_bytes();
        if connection.ready().await.is_ok() {
            let mut idle = lock(&self.idle);
            if idle.len() < IDLE_CONNECTIONS_MAX {
                idle.push(connection);
            }
        }
        Ok(HttpReply { status: head.status, body })
    }

    async fn connect(&self) -> Result<Connection, String> {
        let Member { host, port } = &self.member;
        let stream = TcpStream::connect((&**host, *port)).await.map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        match &self.tls {
            None => start(stream).await,
            Some(config) => {
                let name = ServerName::try_from(host.to_string()).map_err(text)?;
                let connector = TlsConnector::from(Arc::clone(config));
                start(connector.connect(name, stream).await.map_err(text)?).await
            }
        }
    }
}

async fn start(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, String> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(text)?;
    // It ends with its sender. Its errors are those of the requests.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.member.fmt(f)
    }
}
