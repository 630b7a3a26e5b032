//! Users from JSON Web Tokens, with keys from a file and from a URL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Directory, Server, wait_until};

/// A secret of 32 bytes, so that the test needs no library to sign.
const JWKS: &str =
    r#"{"keys": [{"kty": "oct", "kid": "1", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
/// They expire in 2100.
const ANN: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDB9.shb8XMDklRt57k6hC2tsjY7tGVWIpgkuifdpZ55q44I";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJib2IiLCJleHAiOjQxMDI0NDQ4MDB9.4WMGwCzunqKvElfVYl1XqiyvFClZOHN_yFVnBoqtmnU";
/// Signed with the same secret as key 2.
const EVE: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjIifQ.eyJzdWIiOiJldmUiLCJleHAiOjQxMDI0NDQ4MDB9.QF5Tida-rDlm_cLZrdHSRx_5xIDwr-NTLvaFPMmHQJs";

const RULES: &str = "
domain: web
rules:
  - { name: per-user, key: [user], missing: deny, limit: { limit: 2, per: day, algorithm: sliding_log } }
";

const FLAGS: [&str; 8] = [
    "--forward-auth-domain",
    "web",
    "--forward-auth-source",
    "nginx",
    "--user-from",
    "claim:sub",
    "--jwt-algorithms",
    "HS256",
];

fn start(directory: &Directory, keys: [&str; 2]) -> Server {
    let rules = directory.write("rules.yaml", RULES);
    Server::start(&[&FLAGS[..], &["--rules", &rules], &keys].concat())
}

/// The status for a request with this token.
fn authorize(server: &Server, token: &str) -> u16 {
    let mut stream = TcpStream::connect(server.address("http")).unwrap();
    let request = format!(
        "GET /v1/authorize HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-original-method: GET\r\nx-original-uri: /\r\n\
         authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn keys_from_a_file_that_changes() {
    let directory = Directory::new();
    let keys = directory.write("jwks.json", JWKS);
    let server = start(&directory, ["--jwt-keys-file", &keys]);
    assert_eq!([ANN, ANN, ANN, BOB].map(|token| authorize(&server, token)), [200, 200, 429, 200]);
    // A token that was changed is no token: the attribute is missing, and the rule denies that.
    let forged = ANN.replace("eyJzdWIiOiJhbm4i", "eyJzdWIiOiJldmUi");
    assert_eq!([&*forged, "x", ""].map(|token| authorize(&server, token)), [429; 3]);
    directory.write("jwks.json", JWKS.replace(r#""kid": "1""#, r#""kid": "2""#));
    wait_until("the key of the token is gone", || authorize(&server, BOB) == 429);
    assert_eq!(server.metric("tidegate_token_key_failures_total"), 0);
    directory.write("jwks.json", "no keys");
    wait_until("the failure is counted", || server.metric("tidegate_token_key_failures_total") == 1);
    server.stop();
}

#[test]
fn keys_that_cannot_be_fetched_are_counted() {
    let directory = Directory::new();
    // Nothing listens there any more.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = start(&directory, ["--jwt-keys-url", &format!("http://{address}/jwks.json")]);
    wait_until("the failure is counted", || server.metric("tidegate_token_key_failures_total") > 0);
    assert_eq!(authorize(&server, ANN), 429, "without keys there is no user");
    server.stop();
}

/// The tokens expire in 2100, have the subject `ann`, and differ in `iss` and `aud`.
#[test]
fn the_issuer_and_the_audience_are_checked() {
    /// `"iss": "https://id.example", "aud": ["shop", "api"]`.
    const RIGHT: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsic2hvcCIsImFwaSJdLCJleHAiOjQxMDI0NDQ4MDB9.Gr3eSc2HtptA04cNjXL3RL9WUNYfnY32vpLa6FxKnKg";
    /// `"iss": "https://evil.example", "aud": "api"`.
    const OTHER_ISSUER: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJpc3MiOiJodHRwczovL2V2aWwuZXhhbXBsZSIsImF1ZCI6ImFwaSIsImV4cCI6NDEwMjQ0NDgwMH0.Pt2VRqeiVgQWDTZnkbbtA6X7p2sxzewuBj4KCDdPvqc";
    /// `"iss": "https://id.example", "aud": "mail"`.
    const OTHER_AUDIENCE: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtYWlsIiwiZXhwIjo0MTAyNDQ0ODAwfQ.lra9OEB4p8qFqwNWcHrDpYsCPCWlO0JZVknk-RCdzAI";
    let directory = Directory::new();
    let (rules, keys) = (directory.write("rules.yaml", RULES), directory.write("jwks.json", JWKS));
    let checks = ["--jwt-issuer", "https://id.example", "--jwt-audience", "web,api"];
    let files = ["--rules", &rules, "--jwt-keys-file", &keys];
    let server = Server::start(&[&FLAGS[..], &files, &checks].concat());
    let statuses = [OTHER_ISSUER, OTHER_AUDIENCE, ANN, RIGHT, RIGHT, RIGHT];
    assert_eq!(statuses.map(|token| authorize(&server, token)), [429, 429, 429, 200, 200, 429]);
    // A token without `iss` has another issuer.
    for (problem, count) in [("issuer", 2), ("audience", 1)] {
        let name = format!("tidegate_token_problems_total{{problem=\"{problem}\"}}");
        assert_eq!(server.metric(&name), count, "{problem}");
    }
    server.stop();
}

/// Answers requests for keys, or fails while there are none.
struct Issuer {
    url: String,
    keys: Arc<Mutex<Option<String>>>,
}

impl Issuer {
    fn start(keys: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/.well-known/jwks.json", listener.local_addr().unwrap());
        let keys = Arc::new(Mutex::new(Some(keys.to_owned())));
        let issuer = Self { url, keys: Arc::clone(&keys) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut line = String::new();
                BufReader::new(&stream).read_line(&mut line).unwrap();
                assert!(line.starts_with("GET /.well-known/jwks.json "), "{line}");
                let (status, text) = match &*keys.lock().unwrap() {
                    Some(keys) => ("200 OK", keys.clone()),
                    None => ("503 Service Unavailable", String::new()),
                };
                let length = text.len();
                let head =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(format!("{head}{text}").as_bytes()).unwrap();
            }
        });
        issuer
    }

    fn set_keys(&self, keys: Option<String>) {
        *self.keys.lock().unwrap() = keys;
    }
}

/// Starts a server that has the keys of this issuer.
fn start_with_issuer(directory: &Directory, issuer: &Issuer) -> Server {
    let server = start(directory, ["--jwt-keys-url", &issuer.url]);
    // Until then the attribute is missing, and nothing is charged. The first answer that passes is.
    wait_until("the keys are there", || authorize(&server, ANN) == 200);
    server
}

#[test]
fn keys_from_a_url() {
    let (directory, issuer) = (Directory::new(), Issuer::start(JWKS));
    let server = start_with_issuer(&directory, &issuer);
    assert_eq!([ANN, ANN, BOB].map(|token| authorize(&server, token)), [200, 429, 200]);
    server.stop();
}

/// Takes 30 seconds, the least time between two fetches. Without an unknown key the next one would be after five minutes.
#[test]
fn an_unknown_key_is_fetched() {
    let (directory, issuer) = (Directory::new(), Issuer::start(JWKS));
    let server = start_with_issuer(&directory, &issuer);
    issuer.set_keys(Some(JWKS.replace(r#""kid": "1""#, r#""kid": "2""#)));
    assert_eq!(authorize(&server, EVE), 429, "the key is unknown");
    wait_until("the new key is there", || authorize(&server, EVE) == 200);
    assert_eq!(authorize(&server, BOB), 429, "the issuer has withdrawn the old key");
    server.stop();
}

/// Takes 30 seconds too.
#[test]
fn keys_are_kept_while_the_url_is_away() {
    let (directory, issuer) = (Directory::new(), Issuer::start(JWKS));
    let server = start_with_issuer(&directory, &issuer);
    issuer.set_keys(None);
    assert_eq!(authorize(&server, EVE), 429, "the key is unknown, so the URL is asked again");
    wait_until("the failure is counted", || server.metric("tidegate_token_key_failures_total") == 1);
    assert_eq!([ANN, ANN, BOB, EVE].map(|token| authorize(&server, token)), [200, 429, 200, 429]);
    server.stop();
}
