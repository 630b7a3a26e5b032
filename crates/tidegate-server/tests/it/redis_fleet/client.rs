//! Clients of each protocol.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use serde_json::Value;

use crate::redis_fleet::Server;

/// Longer than anything here takes on any machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// The `overall_code` of a denied request.
pub const OVER_LIMIT: i32 = 2;

/// A reply over HTTP.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        self.body.parse().unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn has_header(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream
}

/// Sends a POST on a new connection.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    http(address, "POST", path, body)
}

/// Sends a GET on a new connection.
pub fn get(address: SocketAddr, path: &str) -> Reply {
    http(address, "GET", path, "")
}

fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> Reply {
    let mut stream = connect(address);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Reply { status, head: head.to_lowercase(), body: body.to_owned() }
}

/// The body of a check for this user.
pub fn request_body(user: &str) -> String {
    format!(r#"{{"domain": "api", "attributes": {{"user": "{user}"}}}}"#)
}

/// Checks over HTTP.
pub fn check(server: &Server, user: &str) -> Reply {
    post(server.http, "/v1/check", &request_body(user))
}

/// Checks over gRPC.
pub fn rls(server: &Server, user: &str) -> RateLimitResponse {
    server.runtime.block_on(async {
        let mut client = RateLimitServiceClient::connect(format!("http://{}", server.grpc)).await.unwrap();
        let entries = vec![Entry { key: "user".to_owned(), value: user.to_owned() }];
        let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
        let request = RateLimitRequest { domain: "api".to_owned(), descriptors, hits_addend: 0 };
        client.should_rate_limit(request).await.unwrap().into_inner()
    })
}

/// A client of the Redis protocol.
pub struct Resp(TcpStream);

impl Resp {
    pub fn connect(server: &Server) -> Self {
        Self(connect(server.resp))
    }

    pub fn send(&mut self, commands: &str) {
        self.0.write_all(commands.as_bytes()).expect("the server reads");
    }

    /// Closes the sending side only.
    pub fn stop_sending(&mut self) {
        self.0.shutdown(std::net::Shutdown::Write).expect("a socket");
    }

    /// Asserts that the server closes the connection without sending more.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.until_end(), "");
    }

    /// Reads until the server closes the connection.
    pub fn until_end(&mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).expect("the server closes it");
        rest
    }

    /// Reads one whole reply. Array elements are joined with spaces.
    pub fn read_reply(&mut self) -> String {
        let line = self.line();
        let rest = line[1..].to_owned();
        match line.as_bytes()[0] {
            b'*' => {
                let parts: usize = rest.parse().expect("a number");
                (0..parts).map(|_| self.read_reply()).collect::<Vec<_>>().join(" ")
            }
            b'$' if rest == "-1" => "nil".to_owned(),
            b'$' => self.line(),
            b'-' => format!("-{rest}"),
            _ => rest,
        }
    }

    /// Sends one command and reads its reply.
    pub fn command(&mut self, command: &str) -> String {
        self.send(&format!("{command}\r\n"));
        self.read_reply()
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("an answer in time");
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("text")
    }
}
