//! Encryption: certificates from files, and others in their place while connections go on.

use std::fs::File;
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
use crate::serve::Protocol;

/// The largest file with certificates or a key, in bytes.
const PEM_BYTES_MAX: usize = 1 << 20;

const NOT_PEM: &str = "it has to be PEM text, with a line `-----BEGIN ...-----`";

/// The files that encryption needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities: only clients with a certificate of theirs are let in.
    pub client_ca: Option<PathBuf>,
}

/// The certificate in use. Connections keep the one they began with.
pub struct Tls {
    files: TlsFiles,
    /// What was in the files when they were looked at last, whether it could be used or not.
    last_contents: Mutex<TlsFileContents>,
    active: ArcSwap<TlsConfigs>,
}

/// What became of the certificate in use.
#[derive(Clone, Debug)]
pub enum CertificateReload {
    /// Nothing: there is none, or its files are as they were.
    Unchanged,
    /// The files are others, and what they hold is in use for connections to come.
    Replaced,
    /// The files are others, and cannot be used: the one before stays.
    Kept(TlsError),
}

/// What is in the files, or why one cannot be read.
#[derive(PartialEq, Eq)]
struct TlsFileContents {
    cert: Result<Vec<u8>, TlsError>,
    key: Result<Vec<u8>, TlsError>,
    client_ca: Option<Result<Vec<u8>, TlsError>>,
}

/// The same certificate for each of what is spoken inside.
struct TlsConfigs {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    /// The protocol of Redis has no name in the handshake.
    no_alpn: Arc<ServerConfig>,
}

impl Tls {
    /// By these files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let seen = TlsFileContents::read(&files);
        let in_use = ArcSwap::from_pointee(seen.build_configs(&files)?);
        Ok(Self { files, last_contents: Mutex::new(seen), active: in_use })
    }

    /// The files.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Looks at the files, and takes what is in them into use if that is other than before and can be used. What is
    /// wrong with them is said once.
    pub fn reload(&self) -> CertificateReload {
        let mut seen = self.last_contents.lock().unwrap_or_else(PoisonError::into_inner);
        let now = TlsFileContents::read(&self.files);
        if *seen == now {
            return CertificateReload::Unchanged;
        }
        *seen = now;
        match seen.build_configs(&self.files) {
            Ok(configs) => {
                self.active.store(Arc::new(configs));
                CertificateReload::Replaced
            }
            Err(error) => CertificateReload::Kept(error),
        }
    }

    /// What greets a connection on which this is to be spoken.
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
        let clients: Arc<dyn ClientCertVerifier> = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(pem)) => client_verifier(path, pem.as_ref().map_err(Clone::clone)?, &provider)?,
            _ => Arc::new(NoClientAuth),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable_key(files, &error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(certs, key)
            .map_err(|error| unusable_key(files, &error))?;
        let speaking = |names: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(TlsConfigs { http1: speaking(&[b"http/1.1"]), http2: speaking(&[b"h2"]), no_alpn: speaking(&[]) })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PEM_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => {
            let problem = format!("it cannot be read: {error}");
            Err(TlsError::new(path, problem, "check the path and its permissions"))
        }
        Ok(0) => Err(TlsError::new(path, "it is empty", NOT_PEM)),
        Ok(bytes) if bytes > PEM_BYTES_MAX => {
            let problem = format!("it has more than {PEM_BYTES_MAX} bytes");
            Err(TlsError::new(path, problem, "put only the certificates into it that are needed"))
        }
        Ok(_) => Ok(bytes),
    }
}

fn parse_certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(TlsError::new(path, "there is no certificate in it", NOT_PEM)),
        Err(error) => Err(TlsError::new(path, format!("it is no PEM: {error}"), NOT_PEM)),
    }
}

fn parse_private_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    // What is wrong with it is not said in the parser's words, which quote it.
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        TlsError::new(
            path,
            "there is no private key in it",
            "it has to be PEM text with a line `-----BEGIN PRIVATE KEY-----`, without a passphrase",
        )
    })
}

fn client_verifier(
    path: &Path,
    pem: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let refused = |error: &dyn std::error::Error| {
        TlsError::new(
            path,
            format!("it is no authority: {error}"),
            "name the file with the clients' authority",
        )
    };
    let mut roots = RootCertStore::empty();
    for certificate in parse_certificates(path, pem)? {
        roots.add(certificate).map_err(|error| refused(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| refused(&error))
}

fn unusable_key(files: &TlsFiles, error: &rustls::Error) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(_) => TlsError::new(
            &files.key,
            format!("it is not the key of the certificate `{}`", files.cert.display()),
            "name the key that the certificate was made with; of several certificates, its own comes first",
        ),
        error => {
            TlsError::new(&files.cert, format!("it cannot be used: {error}"), "make the certificate again")
        }
    }
}
