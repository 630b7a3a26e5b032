//! TLS with trusted, untrusted and client certificates.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{LONG_TIMEOUT, add, connect_with, settings};
use crate::redis::testing::{RedisProcess, TempDir, free_port, wait_until};
use crate::redis::topology::Servers;
use crate::redis::{ClientCertificate, ConnectErrorKind as Kind, RedisSettings};

/// A CA, and a certificate that it signed.
struct TlsFiles {
    _directory: TempDir,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn tls_files() -> TlsFiles {
    let directory = TempDir::new();
    let mut ca = CertificateParams::default();
    // Another name than the leaf certificate's, which would otherwise count as its own issuer.
    ca.distinguished_name.push(DnType::CommonName, "test CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate =
        CertificateParams::new(names).expect("names").signed_by(&key, &ca).expect("a certificate");
    TlsFiles {
        ca: directory.write_file("ca.pem", &ca.pem()),
        certificate: directory.write_file("own.pem", &certificate.pem()),
        key: directory.write_file("key.pem", &key.serialize_pem()),
        _directory: directory,
    }
}

async fn start_redis(files: &TlsFiles, clients: &str) -> (RedisProcess, u16) {
    start_redis_with(files, &["--tls-auth-clients", clients])
}

fn start_redis_with(files: &TlsFiles, settings: &[&str]) -> (RedisProcess, u16) {
    let (port, [ca, certificate, key]) = (free_port(), files.as_text());
    let port_text = port.to_string();
    let mut addresses_expected =
        vec!["--tls-port", &port_text, "--tls-ca-cert-file", ca, "--tls-cert-file", certificate];
    addresses_expected.extend(["--tls-key-file", key]);
    addresses_expected.extend(settings);
    let process = RedisProcess::start_with(&addresses_expected);
    (process, port)
}

impl TlsFiles {
    /// The paths of the CA, the certificate and its key.
    fn as_text(&self) -> [&str; 3] {
        [&self.ca, &self.certificate, &self.key].map(|path| path.to_str().expect("text"))
    }
}

fn settings_with_ca(files: &TlsFiles, url: &str) -> RedisSettings {
    let mut settings = settings(url, LONG_TIMEOUT);
    settings.ca_file = Some(files.ca.clone());
    settings
}

#[tokio::test]
async fn a_trusted_certificate_is_accepted() {
    let files = tls_files();
    let (_redis, port) = start_redis(&files, "no").await;
    for host in ["localhost", "127.0.0.1"] {
        let servers = connect_with(&settings_with_ca(&files, &format!("rediss://{host}:{port}"))).await;
        assert!(add(&servers, "a", 1).await.is_ok());
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected() {
    let (files, other_files) = (tls_files(), self::tls_files());
    let (plain, port) = start_redis(&files, "no").await;
    let url = format!("rediss://127.0.0.1:{port}");
    for settings in [settings(&url, LONG_TIMEOUT), settings_with_ca(&other_files, &url)] {
        let error = Servers::connect(&settings, &[]).await.err().expect("an error");
        assert_eq!(error.kind(), Kind::Tls, "{error}");
        assert!(error.message().contains("certificate"), "{error}");
    }
    // TLS on a port without it, and no TLS on a port with it.
    let error =
        Servers::connect(&settings_with_ca(&files, &format!("rediss://{}", plain.address())), &[]).await;
    let error = error.err().expect("an error");
    assert!(error.hint().contains("redis://"), "{error}");
    let error = Servers::connect(&settings(&format!("redis://127.0.0.1:{port}"), LONG_TIMEOUT), &[]).await;
    let error = error.err().expect("an error");
    assert!(error.hint().contains("rediss://"), "{error}");
}

#[tokio::test]
async fn a_server_that_requires_client_certificates() {
    let files = tls_files();
    let (_redis, port) = start_redis(&files, "yes").await;
    let mut settings = settings_with_ca(&files, &format!("rediss://127.0.0.1:{port}"));
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert!(error.hint().contains("certificate"), "{error}");
    settings.client_certificate =
        Some(ClientCertificate { certificate_file: files.certificate.clone(), key_file: files.key.clone() });
    let servers = connect_with(&settings).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn invalid_certificate_files() {
    let files = tls_files();
    let mut settings = settings_with_ca(&files, "rediss://127.0.0.1:1");
    settings.ca_file = Some(files.key.clone());
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::Tls);
    assert!(error.message().contains("holds no certificate"), "{error}");
    settings.ca_file = Some("/nowhere/ca.pem".into());
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert!(error.message().contains("/nowhere/ca.pem"), "{error}");
    settings.ca_file = Some(files.ca.clone());
    settings.client_certificate =
        Some(ClientCertificate { certificate_file: files.certificate.clone(), key_file: files.ca.clone() });
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::Tls, "{error}");
}

#[tokio::test]
async fn a_cluster_is_reached_on_its_tls_ports() {
    let files = tls_files();
    let node = |_| {
        let bus = free_port().to_string();
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--tls-cluster", "yes"];
        let mut settings = vec!["--tls-auth-clients", "no"];
        settings.extend(cluster);
        start_redis_with(&files, &settings)
    };
    let nodes: Vec<_> = (0..3).map(node).collect();
    let addresses = || nodes.iter().map(|(_, port)| format!("127.0.0.1:{port}"));
    let [ca, certificate, key] = files.as_text();
    let created = std::process::Command::new("redis-cli")
        .args(["--tls", "--cacert", ca, "--cert", certificate, "--key", key, "--cluster", "create"])
        .args(addresses())
        .args(["--cluster-replicas", "0", "--cluster-yes"])
        .output()
        .expect("redis-cli");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
    wait_until("all agree that it is up", async || {
        nodes.iter().all(|(node, _)| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    })
    .await;

    // Each of them finds the others, by their TLS ports.
    for address in addresses() {
        let servers = connect_with(&settings_with_ca(&files, &format!("rediss-cluster://{address}"))).await;
        let mut addresses_known: Vec<_> =
            servers.stats().servers.iter().map(|server| server.address.to_string()).collect();
        let mut addresses_expected: Vec<_> = addresses().collect();
        addresses_known.sort_unstable();
        addresses_expected.sort_unstable();
        assert_eq!(addresses_known, addresses_expected);
        for number in 0..20 {
            assert!(add(&servers, &format!("user:{number}"), 1).await.is_ok());
        }
        assert_eq!(servers.stats().total.failures, 0);
    }
}
