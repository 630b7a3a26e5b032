//! Logins and TLS.

use std::path::PathBuf;

use tidegate::Locks;
use tidegate::etcd::{ClientCertificate, EtcdStore};
use tidegate_testing::etcd_server::{EtcdCluster, EtcdTls};
use tidegate_testing::redis_server::TempDir;

use super::setup::{LONG, settings};
use crate::lease_suite::wait_until;

/// Turns the access control of etcd on: a user `tidegate` with the password `hunter2` and the rights for its keys.
fn enable_login(cluster: &EtcdCluster) {
    let calls = [
        ("/v3/auth/user/add", r#"{"name":"root","password":"toor"}"#),
        ("/v3/auth/role/add", r#"{"name":"root"}"#),
        ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("/v3/auth/user/add", r#"{"name":"tidegate","password":"hunter2"}"#),
        ("/v3/auth/role/add", r#"{"name":"tidegate"}"#),
        // From `tg:` to `tg;`.
        (
            "/v3/auth/role/grant",
            r#"{"name":"tidegate","perm":{"permType":"READWRITE","key":"dGc6","range_end":"dGc7"}}"#,
        ),
        ("/v3/auth/user/grant", r#"{"user":"tidegate","role":"tidegate"}"#),
        ("/v3/auth/enable", "{}"),
    ];
    for (path, body) in calls {
        let reply = cluster.post(path, body);
        assert!(reply.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    }
}

#[tokio::test]
async fn a_user_needs_its_password() {
    let mut cluster = EtcdCluster::start(1);
    enable_login(&cluster);
    let url = cluster.url();
    let with_login = |login: &str| settings(&url.replace("://", &format!("://{login}")), LONG);
    for wrong in ["", "tidegate:wrong@", "nobody:hunter2@"] {
        let error = EtcdStore::connect(with_login(wrong)).await.unwrap_err();
        assert!(!error.is_transient() && error.to_string().contains("(hint: "), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let store = EtcdStore::connect(with_login("tidegate:hunter2@")).await.unwrap();
    assert!(!format!("{store:?}").contains("hunter2"));
    let locks = Locks::with_store(store);
    assert!(locks.try_lock("invoice", LONG).await.unwrap().release().await.is_ok());
    // A restart forgets the tokens of logins, so the store logs in again.
    cluster.kill(0);
    cluster.restart(0);
    let _ = wait_until(async || locks.try_lock("invoice", LONG).await.ok()).await;
}

struct Certificates {
    directory: TempDir,
    ca: PathBuf,
    server: EtcdTls,
    client: ClientCertificate,
}

/// A CA, and certificates that it signed for 127.0.0.1.
fn certificates() -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let directory = TempDir::new();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca_params = CertificateParams::new(Vec::new()).unwrap();
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca_params.distinguished_name.push(DnType::CommonName, "tests");
    let ca = ca_params.self_signed(&ca_key).unwrap();
    let ca_file = directory.write_file("ca.pem", &ca.pem());
    let issuer = Issuer::new(ca_params, ca_key);
    let sign = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let certificate_file = directory.write_file(&format!("{name}.pem"), &certificate.pem());
        (certificate_file, directory.write_file(&format!("{name}.key"), &key.serialize_pem()))
    };
    let ((server_file, server_key), (certificate_file, key_file)) = (sign("server"), sign("client"));
    let client_ca_file = Some(ca_file.clone());
    let server = EtcdTls { certificate_file: server_file, key_file: server_key, client_ca_file };
    Certificates { ca: ca_file, server, client: ClientCertificate { certificate_file, key_file }, directory }
}

#[tokio::test]
async fn tls_with_a_client_certificate() {
    let Certificates { directory: _directory, ca, server, client } = certificates();
    let cluster = EtcdCluster::start_with(1, Some(&server));
    let mut with_both = settings(&cluster.url(), LONG);
    (with_both.ca_file, with_both.client_certificate) = (Some(ca.clone()), Some(client));
    let store = wait_until(async || EtcdStore::connect(with_both.clone()).await.ok()).await;
    assert!(Locks::with_store(store).try_lock("invoice", LONG).await.is_ok());
    let mut without_certificate = settings(&cluster.url(), LONG);
    without_certificate.ca_file = Some(ca);
    assert!(EtcdStore::connect(without_certificate).await.is_err());
    assert!(EtcdStore::connect(settings(&cluster.url(), LONG)).await.is_err(), "an unknown CA");
    let mut missing_file = with_both;
    missing_file.ca_file = Some("/nonexistent/ca.pem".into());
    let error = EtcdStore::connect_lazy(missing_file).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("ca.pem"), "{error}");
}
