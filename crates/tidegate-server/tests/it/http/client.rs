//! A minimal client: it sends bytes and parses replies.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;

use crate::http::server::TEST_TIMEOUT;

/// A connection.
pub struct Client {
    stream: TcpStream,
    /// Bytes that were read and belong to no reply yet.
    read: Vec<u8>,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// In order, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes as they are. If the server has closed the connection, reading a reply fails.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes);
    }

    /// Sends bytes, and returns an error if that fails.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Closes the sending side, and keeps reading.
    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
        self.reply()
    }

    #[track_caller]
    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Response {
        self.request("POST", path, &["content-type: application/json"], body.as_ref())
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Response {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{headers}content-length: {length}\r\n\r\n"
        );
        self.send([head.as_bytes(), body].concat());
        self.reply()
    }

    /// Asserts that nothing has arrived.
    #[track_caller]
    pub fn assert_silent(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        assert_eq!(self.stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Reads the next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Response {
        self.reply_to("GET")
    }

    /// Reads the next reply to a request of this method: replies to HEAD have no body.
    #[track_caller]
    pub fn reply_to(&mut self, method: &str) -> Response {
        let head_end = loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            assert!(self.read_more() > 0, "closed before a reply: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..head_end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let pair = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        };
        let headers: Vec<(String, String)> = lines.map(pair).collect();
        let mut response = Response { status, headers, body: String::new() };
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        if method != "HEAD" && status >= 200 {
            while self.read.len() < length {
                assert!(self.read_more() > 0, "closed within the body: {response:?}");
            }
            response.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        }
        response
    }

    /// The next reply, or `None` if the server closes the connection first.
    pub fn reply_if_open(&mut self) -> Option<Response> {
        while self.read.is_empty() {
            if self.read_more() == 0 {
                return None;
            }
        }
        Some(self.reply())
    }

    /// Whether the server has closed the connection by now.
    pub fn is_closed(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let result = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).unwrap();
        match result {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    /// Waits until the server closes the connection, and returns what it sent before.
    pub fn read_to_end(&mut self) -> String {
        while self.read_more() > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// The number of bytes read; 0 at the end.
    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(bytes) => {
                self.read.extend_from_slice(&buffer[..bytes]);
                bytes
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => 0,
            // The process was stopped for a while, and continues.
            Err(error) if error.kind() == ErrorKind::Interrupted => self.read_more(),
            Err(error) => panic!("nothing arrived in {TEST_TIMEOUT:?}: {error}"),
        }
    }
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// All headers except those of every reply, as they were sent.
    pub fn own_headers(&self) -> Vec<String> {
        let own = self.headers.iter().filter(|(name, _)| name != "date" && name != "content-length");
        own.map(|(name, value)| format!("{name}: {value}")).collect()
    }

    /// Asserts a problem with this status that contains these words.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["type"].is_string(), "{self:?}");
        for word in words {
            assert!(self.body.contains(word), "{word}: {self:?}");
        }
    }
}
