use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{NEVER_LATE, add, connected_with, settings};
use crate::redis::servers::Servers;
use crate::redis::testing::{RedisProcess, Scratch, free_port, until};
use crate::redis::{ClientCertificate, ConnectErrorKind as Kind, RedisSettings};

/// Who vouches for whom.
struct Papers {
    _scratch: Scratch,
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn papers() -> Papers {
    let scratch = Scratch::new();
    let mut ca = CertificateParams::default();
    // Not the same as that of the other one, which would be taken for its own issuer.
    ca.distinguished_name.push(DnType::CommonName, "those who vouch");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let own = CertificateParams::new(names).expect("names").signed_by(&key, &ca).expect("a certificate");
    Papers {
        ca: scratch.file("ca.pem", &ca.pem()),
        certificate: scratch.file("own.pem", &own.pem()),
        key: scratch.file("key.pem", &key.serialize_pem()),
        _scratch: scratch,
    }
}

async fn redis(papers: &Papers, clients: &str) -> (RedisProcess, u16) {
    redis_with(papers, &["--tls-auth-clients", clients])
}

fn redis_with(papers: &Papers, settings: &[&str]) -> (RedisProcess, u16) {
    let (port, [ca, certificate, key]) = (free_port(), papers.as_text());
    let port_text = port.to_string();
    let mut all = vec!["--tls-port", &port_text, "--tls-ca-cert-file", ca, "--tls-cert-file", certificate];
    all.extend(["--tls-key-file", key]);
    all.extend(settings);
    let process = RedisProcess::with(&all);
    (process, port)
}

impl Papers {
    /// Who vouches, the certificate and its key.
    fn as_text(&self) -> [&str; 3] {
        [&self.ca, &self.certificate, &self.key].map(|path| path.to_str().expect("text"))
    }
}

fn trusting(papers: &Papers, url: &str) -> RedisSettings {
    let mut settings = settings(url, NEVER_LATE);
    settings.ca_file = Some(papers.ca.clone());
    settings
}

#[tokio::test]
async fn a_server_that_is_trusted() {
    let papers = papers();
    let (_redis, port) = redis(&papers, "no").await;
    for host in ["localhost", "127.0.0.1"] {
        let servers = connected_with(&trusting(&papers, &format!("rediss://{host}:{port}"))).await;
        assert!(add(&servers, "a", 1).await.is_ok());
    }
}

#[tokio::test]
async fn a_server_that_is_not() {
    let (papers, others) = (papers(), self::papers());
    let (plain, port) = redis(&papers, "no").await;
    let url = format!("rediss://127.0.0.1:{port}");
    for settings in [settings(&url, NEVER_LATE), trusting(&others, &url)] {
        let error = Servers::connect(&settings, &[]).await.err().expect("an error");
        assert_eq!(error.kind(), Kind::Tls, "{error}");
        assert!(error.what().contains("certificate"), "{error}");
    }
    // A port without TLS, and one with it.
    let error = Servers::connect(&trusting(&papers, &format!("rediss://{}", plain.address())), &[]).await;
    let error = error.err().expect("an error");
    assert!(error.hint().contains("redis://"), "{error}");
    let error = Servers::connect(&settings(&format!("redis://127.0.0.1:{port}"), NEVER_LATE), &[]).await;
    let error = error.err().expect("an error");
    assert!(error.hint().contains("rediss://"), "{error}");
}

#[tokio::test]
async fn a_server_that_wants_to_know_who_asks() {
    let papers = papers();
    let (_redis, port) = redis(&papers, "yes").await;
    let mut settings = trusting(&papers, &format!("rediss://127.0.0.1:{port}"));
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert!(error.hint().contains("certificate"), "{error}");
    settings.client_certificate = Some(ClientCertificate {
        certificate_file: papers.certificate.clone(),
        key_file: papers.key.clone(),
    });
    let servers = connected_with(&settings).await;
    assert!(add(&servers, "a", 1).await.is_ok());
}

#[tokio::test]
async fn files_that_are_not_what_they_should_be() {
    let papers = papers();
    let mut settings = trusting(&papers, "rediss://127.0.0.1:1");
    settings.ca_file = Some(papers.key.clone());
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::Tls);
    assert!(error.what().contains("holds no certificate"), "{error}");
    settings.ca_file = Some("/nowhere/ca.pem".into());
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert!(error.what().contains("/nowhere/ca.pem"), "{error}");
    settings.ca_file = Some(papers.ca.clone());
    settings.client_certificate =
        Some(ClientCertificate { certificate_file: papers.certificate.clone(), key_file: papers.ca.clone() });
    let error = Servers::connect(&settings, &[]).await.err().expect("an error");
    assert_eq!(error.kind(), Kind::Tls, "{error}");
}

#[tokio::test]
async fn a_cluster_is_known_by_its_ports_for_tls() {
    let papers = papers();
    let node = |_| {
        let bus = free_port().to_string();
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--tls-cluster", "yes"];
        let mut settings = vec!["--tls-auth-clients", "no"];
        settings.extend(cluster);
        redis_with(&papers, &settings)
    };
    let nodes: Vec<_> = (0..3).map(node).collect();
    let addresses = || nodes.iter().map(|(_, port)| format!("127.0.0.1:{port}"));
    let [ca, certificate, key] = papers.as_text();
    let created = std::process::Command::new("redis-cli")
        .args(["--tls", "--cacert", ca, "--cert", certificate, "--key", key, "--cluster", "create"])
        .args(addresses())
        .args(["--cluster-replicas", "0", "--cluster-yes"])
        .output()
        .expect("redis-cli");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
    until("all agree that it is up", async || {
        nodes.iter().all(|(node, _)| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    })
    .await;

    // From any of them the others are found, by their ports for TLS.
    for address in addresses() {
        let servers = connected_with(&trusting(&papers, &format!("rediss-cluster://{address}"))).await;
        let mut known: Vec<_> =
            servers.stats().servers.iter().map(|server| server.address.to_string()).collect();
        let mut all: Vec<_> = addresses().collect();
        known.sort_unstable();
        all.sort_unstable();
        assert_eq!(known, all);
        for number in 0..20 {
            assert!(add(&servers, &format!("user:{number}"), 1).await.is_ok());
        }
        assert_eq!(servers.stats().total.failures, 0);
    }
}
