//! TLS to servers: the certificates that are trusted and shown.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::regular_file;

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate chain, as PEM.
    pub certificate_file: PathBuf,
    /// The private key, as PEM.
    pub key_file: PathBuf,
}

/// Why the certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFilesError {
    pub message: String,
    pub hint: &'static str,
}

/// Trusts the CA certificates of this file, or else those of the system, and shows the client certificate if there is
/// one.
pub(crate) fn client_config(
    ca_file: Option<&Path>,
    client_certificate: Option<&ClientCertificate>,
) -> Result<ClientConfig, TlsFilesError> {
    let tls_error = |message: String, hint: &'static str| TlsFilesError { message, hint };
    let roots = match ca_file {
        Some(file) => load_roots(file),
        None => load_system_roots(),
    }
    .map_err(|message| {
        tls_error(message, "give the certificate of the CA that signed the server's, as PEM")
    })?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string(), "this is a bug in Tidegate: please report it"))?
        .with_root_certificates(roots);
    match client_certificate {
        None => Ok(builder.with_no_client_auth()),
        Some(client) => load_client_certificate(client)
            .and_then(|(chain, key)| {
                builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
            })
            .map_err(|message| {
                tls_error(message, "give a certificate and the private key that belongs to it, as PEM")
            }),
    }
}

fn load_roots(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in load_certificates(file)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(roots)
}

fn load_system_roots() -> Result<RootCertStore, String> {
    let native = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        return Err("this system has no root certificates".to_owned());
    }
    Ok(roots)
}

type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn load_client_certificate(client: &ClientCertificate) -> Result<CertificateAndKey, String> {
    let chain = load_certificates(&client.certificate_file)?;
    let key = open(&client.key_file)
        .and_then(PrivateKeyDer::from_pem_reader)
        .map_err(|error| format!("{}: {error}", client.key_file.display()))?;
    Ok((chain, key))
}

fn load_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = open(file)
        .and_then(|pem| CertificateDer::pem_reader_iter(pem).collect::<Result<Vec<_>, _>>())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    if certificates.is_empty() {
        return Err(format!("{} holds no certificate", file.display()));
    }
    Ok(certificates)
}

fn open(file: &Path) -> Result<File, pem::Error> {
    regular_file::open(file).map_err(pem::Error::Io)
}
