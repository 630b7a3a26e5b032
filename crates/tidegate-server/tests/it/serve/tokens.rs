//! Users from JSON Web Tokens, with keys from a file and from a URL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::{Directory, Server, wait_until};

/// A secret of 32 bytes, so that the test needs no library to sign.
const JWKS: &str =
    r#"{"keys": [{"kty": "oct", "kid": "1", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
/// They expire in 2100.
const ANN: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJhbm4iLCJleHAiOjQxMDI0NDQ4MDB9.shb8XMDklRt57k6hC2tsjY7tGVWIpgkuifdpZ55q44I";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJib2IiLCJleHAiOjQxMDI0NDQ4MDB9.4WMGwCzunqKvElfVYl1XqiyvFClZOHN_yFVnBoqtmnU";

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
    server.stop();
}

#[test]
fn keys_from_a_url() {
    let directory = Directory::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/.well-known/jwks.json", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert!(line.starts_with("GET /.well-known/jwks.json "), "{line}");
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", JWKS.len());
            stream.write_all(format!("{head}{JWKS}").as_bytes()).unwrap();
        }
    });
    let server = start(&directory, ["--jwt-keys-url", &url]);
    // Until then the attribute is missing, and nothing is charged. The first answer that passes is.
    wait_until("the keys are there", || authorize(&server, ANN) == 200);
    assert_eq!([ANN, ANN, BOB].map(|token| authorize(&server, token)), [200, 429, 200]);
    server.stop();
}
