//! Certificates for tests, and TLS clients.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Certificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine with this common name.
    pub fn sign(&self, name: &str) -> Certificate {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certificate { certificate, key }
    }
}

impl Certificate {
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

/// A client that trusts an authority, and may have a certificate.
pub struct Client(Arc<ClientConfig>);

/// A TLS connection after the handshake.
pub struct TlsConnection {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
    pub alpn: Option<Vec<u8>>,
    /// The server's certificate.
    pub server_certificate: CertificateDer<'static>,
}

impl Client {
    pub fn new(authority: &Authority, alpn: &[&[u8]], certificate: Option<&Certificate>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => config.with_no_client_auth(),
            Some(certificate) => {
                let key = PrivateKeyDer::try_from(certificate.key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![certificate.certificate.der().clone()], key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Self(Arc::new(config))
    }

    /// Connects to `tls:127.0.0.1:8443`.
    pub fn connect(&self, address: &str) -> io::Result<TlsConnection> {
        let mut stream = TcpStream::connect(address.strip_prefix("tls:").expect("the address has tls:"))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        let spoken = connection.alpn_protocol().map(<[u8]>::to_vec);
        let certificate = connection.peer_certificates().unwrap()[0].clone().into_owned();
        Ok(TlsConnection {
            stream: StreamOwned::new(connection, stream),
            alpn: spoken,
            server_certificate: certificate,
        })
    }
}
