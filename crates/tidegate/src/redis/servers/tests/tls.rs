use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{NEVER_LATE, add, connected_with, settings};
use crate::redis::servers::Servers;
use crate::redis::testing::{RedisProcess, Scratch, free_port};
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
    let port = free_port();
    let text = |path: &PathBuf| path.to_str().expect("text").to_owned();
    let process = RedisProcess::with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-ca-cert-file",
        &text(&papers.ca),
        "--tls-cert-file",
        &text(&papers.certificate),
        "--tls-key-file",
        &text(&papers.key),
        "--tls-auth-clients",
        clients,
    ]);
    (process, port)
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
