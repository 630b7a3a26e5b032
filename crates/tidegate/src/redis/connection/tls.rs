//! TLS connections.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connect_error::{ConnectError, ConnectErrorKind};
use crate::redis::RedisSettings;
use crate::redis::url::Address;
use crate::tls::client_config;

/// The trusted root certificates, and the client certificate if there is one.
pub(crate) struct Tls(TlsConnector);

impl Tls {
    pub fn new(settings: &RedisSettings) -> Result<Self, ConnectError> {
        let config = client_config(settings.ca_file.as_deref(), settings.client_certificate.as_ref());
        let config = config.map_err(|error| {
            ConnectError::new(ConnectErrorKind::Tls, &settings.url, error.message, error.hint)
        })?;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub async fn connect(
        &self,
        address: &Address,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ConnectError> {
        let tls_error = |message: String, hint: &'static str| {
            ConnectError::new(ConnectErrorKind::Tls, address, message, hint)
        };
        let name = ServerName::try_from(address.host.to_string()).map_err(|_| {
            tls_error(
                format!("`{}` cannot be in a certificate", address.host),
                "use the host's name in the URL as it is in its certificate",
            )
        })?;
        self.0.connect(name, stream).await.map_err(|error| {
            tls_error(
                format!("no TLS connection: {error}"),
                "the server must use TLS on that port; its certificate must name this host and be signed by a CA in the CA \
                 file (`ca_file`, or `--store-ca`) or by one that the system trusts; redis:// is without TLS",
            )
        })
    }
}
