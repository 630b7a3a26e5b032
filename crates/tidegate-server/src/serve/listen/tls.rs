//! TLS: certificates from files, which can be replaced while connections are open.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use super::TlsError;
use crate::regular_file;
use crate::serve::Protocol;

/// Maximum size of a certificate or key file, in bytes.
const PEM_BYTES_MAX: usize = 1 << 20;

const NOT_PEM: &str = "use PEM text, with a line `-----BEGIN ...-----`";

/// The files that TLS needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// CA certificates. If set, clients need a certificate signed by one of them.
    pub client_ca: Option<PathBuf>,
}

/// The active certificate. Connections keep the one they started with.
pub struct Tls {
    files: TlsFiles,
    /// Contents of the files at the last reload, valid or not.
    last_contents: Mutex<TlsFileContents>,
    active: ArcSwap<TlsConfigs>,
}

/// The result of reloading the certificate.
#[derive(Clone, Debug)]
pub enum CertificateReload {
    /// There is no certificate, or its files did not change.
    Unchanged,
    /// The files changed. New connections use the new certificate.
    Replaced,
    /// The files changed but are invalid. The previous certificate stays active.
    Kept(TlsError),
}

/// Contents of the files, or why one cannot be read.
#[derive(PartialEq, Eq)]
struct TlsFileContents {
    cert: Result<Vec<u8>, TlsError>,
    key: Result<Vec<u8>, TlsError>,
    client_ca: Option<Result<Vec<u8>, TlsError>>,
}

/// The same certificate, with the ALPN protocols of each listener.
struct TlsConfigs {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    /// Redis has no ALPN name.
    no_alpn: Arc<ServerConfig>,
}

impl Tls {
    /// Loads the certificate from these files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = TlsFileContents::read(&files);
        let active = ArcSwap::from_pointee(contents.build_configs(&files)?);
        Ok(Self { files, last_contents: Mutex::new(contents), active })
    }

    /// The files.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Reads the files and activates the certificate if they changed and are valid. Reports an error once, not at each
    /// call.
    pub fn reload(&self) -> CertificateReload {
        let mut last_contents = self.last_contents.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = TlsFileContents::read(&self.files);
        if *last_contents == contents {
            return CertificateReload::Unchanged;
        }
        *last_contents = contents;
        match last_contents.build_configs(&self.files) {
            Ok(configs) => {
                self.active.store(Arc::new(configs));
                CertificateReload::Replaced
            }
            Err(error) => CertificateReload::Kept(error),
        }
    }

    /// The TLS acceptor for a listener of this protocol.
    pub fn acceptor(&self, protocol: Protocol) -> TlsAcceptor {
        let configs = self.active.load();
        let config = match protocol {
            Protocol::Http | Protocol::Admin => &configs.http1,
            Protocol::Grpc => &configs.http2,
            Protocol::Resp => &configs.no_alpn,
        };
        Arc::clone(config).into()
    }
}

impl TlsFileContents {
    fn read(files: &TlsFiles) -> Self {
        Self {
            cert: read(&files.cert),
            key: read(&files.key),
            client_ca: files.client_ca.as_deref().map(read),
        }
    }

    fn build_configs(&self, files: &TlsFiles) -> Result<TlsConfigs, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let certs = parse_certificates(&files.cert, self.cert.as_ref().map_err(Clone::clone)?)?;
        let key = parse_private_key(&files.key, self.key.as_ref().map_err(Clone::clone)?)?;
        let verifier: Arc<dyn ClientCertVerifier> = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(pem)) => client_verifier(path, pem.as_ref().map_err(Clone::clone)?, &provider)?,
            _ => Arc::new(NoClientAuth),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable_key(files, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certs, key)
            .map_err(|error| unusable_key(files, &error))?;
        let with_alpn = |names: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(TlsConfigs {
            http1: with_alpn(&[b"http/1.1"]),
            http2: with_alpn(&[b"h2"]),
            no_alpn: with_alpn(&[]),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let result =
        regular_file::open(path).and_then(|file| file.take(PEM_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    match result {
        Err(error) => {
            let problem = format!("cannot read the file: {error}");
            Err(TlsError::new(path, problem, "check the path and its permissions"))
        }
        Ok(0) => Err(TlsError::new(path, "the file is empty", NOT_PEM)),
        Ok(bytes) if bytes > PEM_BYTES_MAX => {
            let problem = format!("the file is larger than {PEM_BYTES_MAX} bytes");
            Err(TlsError::new(path, problem, "keep only the certificates that are needed"))
        }
        Ok(_) => Ok(bytes),
    }
}

fn parse_certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(TlsError::new(path, "the file has no certificate", NOT_PEM)),
        Err(error) => Err(TlsError::new(path, format!("the file is not PEM: {error}"), NOT_PEM)),
    }
}

fn parse_private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    // Do not show the parser's error: it quotes the key.
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        TlsError::new(
            path,
            "the file has no private key",
            "use PEM text with a line `-----BEGIN PRIVATE KEY-----`, without a passphrase",
        )
    })
}

fn client_verifier(
    path: &Path,
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let invalid = |error: &dyn std::error::Error| {
        TlsError::new(
            path,
            format!("not a valid CA certificate: {error}"),
            "use the CA certificate that signed the clients' certificates",
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(path, pem)? {
        roots.add(certificate).map_err(|error| invalid(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| invalid(&error))
}

fn unusable_key(files: &TlsFiles, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => TlsError::new(
            &files.key,
            format!("the key does not belong to the certificate `{}`", files.cert.display()),
            "use the certificate's own key; in a chain, the server's certificate comes first",
        ),
        error => {
            TlsError::new(&files.cert, format!("the certificate is invalid: {error}"), "create a new one")
        }
    }
}
