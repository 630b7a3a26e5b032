//! Addresses with `tls:`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::certificates::{Authority, Certificate, Client};
use crate::serve::server::{connect, http_request, try_http_request, write_by_rename};
use crate::serve::{Directory, HTTP_ONLY, RULES, Server, run_to_exit, wait_until};
use crate::support::Run;

const TLS: &str = "tls:127.0.0.1:0";
/// Longer than anything here takes on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

struct Setup {
    directory: Directory,
    authority: Authority,
    certificate: Certificate,
    cert: String,
    key: String,
    rules: String,
}

impl Setup {
    fn new() -> Self {
        let (directory, authority) = (Directory::new(), Authority::new());
        let certificate = authority.sign("the first");
        let cert = directory.write("cert.pem", certificate.pem());
        let key = directory.write("key.pem", certificate.key_pem());
        let rules = directory.write("rules.yaml", RULES);
        Self { directory, authority, certificate, cert, key, rules }
    }

    fn start(&self, args: &[&str]) -> Server {
        let encrypted = ["--tls-cert", &self.cert, "--tls-key", &self.key, "--rules", &self.rules];
        let addresses = ["--http", TLS, "--grpc", TLS, "--resp", TLS, "--admin", "127.0.0.1:0"];
        Server::start(&[&encrypted[..], &addresses, args].concat())
    }

    fn client(&self, alpn: &[&[u8]]) -> Client {
        Client::new(&self.authority, alpn, None)
    }
}

fn check(client: &Client, server: &Server) -> std::io::Result<u16> {
    let body = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;
    let connection = client.connect(server.address("http"))?;
    // A rejected client certificate shows only when the answer is read.
    try_http_request(connection.stream, "POST", "/v1/check", body).map(|answer| answer.status)
}

#[test]
fn http_over_tls() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let client = setup.client(&[]);
    let statuses: Vec<u16> = (0..4).map(|_| check(&client, &server).unwrap()).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
    server.stop();
}

/// Many answers that exceed the socket buffers, to a client that reads late.
#[test]
fn a_long_reply_over_tls_is_complete() {
    /// `COMMAND` has eight bytes and its answer a few kilobytes. All commands are sent together.
    const QUESTIONS: usize = 3_000;
    let setup = Setup::new();
    let server = setup.start(&[]);
    let mut client = setup.client(&[]).connect(server.address("resp")).unwrap().stream;
    client.sock.set_read_timeout(Some(DEADLINE)).unwrap();
    client.write_all(b"COMMAND\nPING\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"+PONG\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    answer.truncate(answer.len() - b"+PONG\r\n".len());
    // Different lengths, to end at different positions in the buffers of TLS and the system.
    for more in 0..10 {
        client.write_all(&b"COMMAND\n".repeat(QUESTIONS + more)).unwrap();
        let mut received = vec![0; answer.len() * (QUESTIONS + more)];
        client.read_exact(&mut received).unwrap();
        assert!(received.chunks(answer.len()).all(|one| one == answer), "{more}");
    }
    server.stop();
}

#[test]
fn alpn_of_each_protocol() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let spoken = |protocol: &str, alpn: &[&[u8]]| {
        let connected = setup.client(alpn).connect(server.address(protocol));
        connected.map(|encrypted| encrypted.alpn).map_err(|error| error.to_string())
    };
    assert_eq!(spoken("http", &[b"h2", b"http/1.1"]), Ok(Some(b"http/1.1".to_vec())));
    assert_eq!(spoken("grpc", &[b"h2", b"http/1.1"]), Ok(Some(b"h2".to_vec())));
    assert_eq!(spoken("resp", &[]), Ok(None));
    assert!(spoken("http", &[b"h2"]).is_err());
    assert!(spoken("grpc", &[b"http/1.1"]).is_err());
}

#[test]
fn plaintext_clients_are_rejected() {
    let setup = Setup::new();
    let server = setup.start(&[]);
    let mut plain = TcpStream::connect(server.address("http").strip_prefix("tls:").unwrap()).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let sample = r#"tidegate_connections_refused_total{protocol="http",reason="handshake"} 1"#;
    wait_until("the refusal is counted", || {
        http_request(connect(server.address("admin")), "GET", "/metrics", "").body.contains(sample)
    });
    assert_eq!(check(&setup.client(&[]), &server).unwrap(), 200);
}

/// A client that connects and sends nothing delays neither other clients nor the shutdown.
#[test]
fn a_silent_client_blocks_nothing() {
    let setup = Setup::new();
    let server = setup.start(&["--drain-timeout", "1h"]);
    let _silent = TcpStream::connect(server.address("http").strip_prefix("tls:").unwrap()).unwrap();
    assert_eq!(check(&setup.client(&[]), &server).unwrap(), 200);
    server.stop();
}

#[test]
fn client_certificates_are_required() {
    let setup = Setup::new();
    let clients = Authority::new();
    let ca = setup.directory.write("clients.pem", clients.pem());
    let server = setup.start(&["--tls-client-ca", &ca]);
    let status_with = |certificate: Option<&Certificate>| {
        let client = Client::new(&setup.authority, &[], certificate);
        check(&client, &server).ok()
    };
    assert_eq!(status_with(Some(&clients.sign("ann"))), Some(200));
    assert_eq!(status_with(None), None);
    assert_eq!(status_with(Some(&setup.authority.sign("another client"))), None);
}

#[test]
fn a_new_certificate_applies_to_new_connections() {
    let setup = Setup::new();
    let server = setup.start(&["--reload-every", "10ms"]);
    let client = setup.client(&[]);
    let before = client.connect(server.address("http")).unwrap();
    let second = setup.authority.sign("the second");
    // The key first: until the certificate follows, the two do not match, and the first pair stays in use.
    write_by_rename(&setup.key, &second.key_pem());
    wait_until("the key is rejected", || !server.health()["certificate"]["failure"].is_null());
    server.wait_for_log("the key does not belong to the certificate");
    assert_eq!(client.connect(server.address("http")).unwrap().server_certificate, before.server_certificate);

    write_by_rename(&setup.cert, &second.pem());
    wait_until("the new certificate is shown", || {
        client.connect(server.address("http")).unwrap().server_certificate != before.server_certificate
    });
    wait_until("health reports it", || server.health()["certificate"]["replaced"].as_u64() == Some(1));
    assert!(server.health()["certificate"]["failure"].is_null());
    assert_eq!(http_request(before.stream, "GET", "/healthz", "").status, 200);
    server.stop();
}

#[test]
fn sighup_reloads_the_certificate() {
    let setup = Setup::new();
    let server = setup.start(&["--reload-every", "1h"]);
    let client = setup.client(&[]);
    let first = client.connect(server.address("http")).unwrap().server_certificate;
    let second = setup.authority.sign("the second");
    write_by_rename(&setup.key, &second.key_pem());
    write_by_rename(&setup.cert, &second.pem());
    server.signal("HUP");
    wait_until("the new certificate is shown", || {
        client.connect(server.address("http")).unwrap().server_certificate != first
    });
}

/// Opening a FIFO waits for a writer, and no writer comes. Rules are still reloaded.
#[test]
fn a_fifo_as_a_certificate_does_not_block_reloads() {
    let setup = Setup::new();
    let server = setup.start(&["--reload-every", "10ms"]);
    replace_by_fifo(&setup.cert);
    wait_until("the certificate is rejected", || !server.health()["certificate"]["failure"].is_null());
    server.wait_for_log("it is not a regular file");
    write_by_rename(&setup.rules, "domain: api\nrules: [ { name: none, limit: 0 per second } ]\n");
    wait_until("the new rules are active", || check(&setup.client(&[]), &server).unwrap() == 429);
    // The same for a FIFO in place of the rules.
    replace_by_fifo(&setup.rules);
    wait_until("the rules are rejected", || !server.health()["rules"]["failure"].is_null());
    let reloaded = http_request(connect(server.address("admin")), "POST", "/v1/reload", "{}");
    assert_eq!(reloaded.status, 422, "{reloaded:?}");
    server.stop();
}

/// A start with each file that the server reads.
#[test]
fn a_fifo_or_a_device_is_refused_at_the_start() {
    let setup = Setup::new();
    let (cert, key) = (setup.cert.as_str(), setup.key.as_str());
    let directory = Directory::new();
    let fifo = directory.write("fifo", "");
    replace_by_fifo(&fifo);
    let redis = ["--store", "rediss://127.0.0.1:1", "--store-required"];
    for file in [fifo.as_str(), "/dev/zero"] {
        for (args, message) in [
            (&["--config", file] as &[&str], "it is not a regular file"),
            (&["--rules", file], "it is neither a file nor a directory"),
            (&["--admin-token-file", file], "it is not a regular file"),
            (&["--resp-password-file", file], "it is not a regular file"),
            (
                &["--tls-cert", file, "--tls-key", key, "--http", "tls:127.0.0.1:0"],
                "it is not a regular file",
            ),
            (
                &["--tls-cert", cert, "--tls-key", file, "--http", "tls:127.0.0.1:0"],
                "it is not a regular file",
            ),
            (&["--store-ca", file], "it is not a regular file"),
            (&["--store-cert", file, "--store-key", key], "it is not a regular file"),
            (&["--store-cert", cert, "--store-key", file], "it is not a regular file"),
        ] {
            let store = if args[0].starts_with("--store") { &redis as &[&str] } else { &[] };
            let run = run_to_exit(&[args, store].concat(), &[]);
            assert!(run.code.is_some_and(|code| code != 0), "{args:?}: {}", run.err);
            assert!(run.err.contains(message), "{args:?}: {}", run.err);
        }
    }
}

fn replace_by_fifo(path: &str) {
    let new = format!("{path}.fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &*new, rustix::fs::Mode::RUSR).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn unusable_certificate_files() {
    let setup = Setup::new();
    let other = setup.authority.sign("another");
    let other_key = setup.directory.write("other-key.pem", other.key_pem());
    let empty = setup.directory.write("empty.pem", "");
    let text = setup.directory.write("text.pem", "this is no PEM\n");
    let half = setup.directory.write("half.pem", &setup.certificate.pem()[..200]);
    let (cert, key) = (&*setup.cert, &*setup.key);
    let cases: [(&str, &str, &str, &str); 8] = [
        ("no-such.pem", key, "no-such.pem", "cannot read the file"),
        (&empty, key, "empty.pem", "the file is empty (hint: use PEM text"),
        (&text, key, "text.pem", "the file has no certificate"),
        (&half, key, "half.pem", "the file is not PEM"),
        (cert, "no-such.pem", "no-such.pem", "cannot read the file"),
        (cert, &text, "text.pem", "the file has no private key"),
        (cert, cert, "cert.pem", "the file has no private key"),
        (cert, &other_key, "other-key.pem", "the key does not belong to the certificate"),
    ];
    for (cert, key, file, message) in cases {
        let args = ["--http", TLS, "--tls-cert", cert, "--tls-key", key];
        let Run { code, err: error, .. } = run_to_exit(&[&args, &HTTP_ONLY[..]].concat(), &[]);
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains(file) && error.contains(message) && error.contains("(hint: "),
            "{message}: {error}"
        );
    }
}
