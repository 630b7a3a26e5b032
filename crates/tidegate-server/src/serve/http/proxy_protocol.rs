//! The header of PROXY protocol at the start of a connection, which names the client.

use std::net::IpAddr;

use tidegate::identity::{PROXY_HEADER_BYTES_MAX, ProxyHeader};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::Http;
use crate::serve::Protocol;
use crate::serve::listen::Stream;

/// Whether connections begin with a header of PROXY protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// No. Such a header is an invalid request.
    #[default]
    Off,
    /// Yes. Connections without one are closed.
    Required,
}

/// The connection has no valid header.
pub(super) struct NoProxyHeader;

/// Reads the header, and returns the address of the client.
pub(super) async fn read_client(stream: &mut Stream, http: &Http) -> Result<Option<IpAddr>, NoProxyHeader> {
    let header = tokio::select! {
        header = timeout(http.bounds.header_timeout, read_header(stream)) => header,
        () = http.app.drain.wait() => return Err(NoProxyHeader),
    };
    match header {
        Ok(Ok(header)) => Ok(header.client.or_else(|| stream.peer_ip())),
        Ok(Err(NoProxyHeader)) | Err(_) => {
            http.app.metrics.count_refused_connection(Protocol::Http, "proxy_header");
            Err(NoProxyHeader)
        }
    }
}

/// Reads byte by byte, because what follows is for the parser of HTTP. A connection has one header, of about a hundred
/// bytes.
async fn read_header(stream: &mut Stream) -> Result<ProxyHeader, NoProxyHeader> {
    let mut bytes = Vec::new();
    while bytes.len() < PROXY_HEADER_BYTES_MAX {
        bytes.push(stream.read_u8().await.map_err(|_| NoProxyHeader)?);
        if let Some(header) = ProxyHeader::read(&bytes).map_err(|_| NoProxyHeader)? {
            return Ok(header);
        }
    }
    Err(NoProxyHeader)
}
