//! Sends one request and checks the answer, so that a fast but wrong server is not measured.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::grpc_call;
use super::target::{ANY_NUMBER, TargetRequest};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Replaces [`ANY_NUMBER`].
const SOME_NUMBER: &str = "000000000042";

/// Sends the request once. The error includes a wrong answer.
pub(super) fn check_answer(request: &TargetRequest, port: u16) -> Result<(), String> {
    let answer = match request {
        TargetRequest::Resp { command, .. } => {
            exchange(port, &resp_command(command), |answer| is_right(request, answer))
        }
        TargetRequest::Http { path, body, .. } => {
            exchange(port, &post(path, body), |answer| is_right(request, answer))
        }
        TargetRequest::Grpc { path, message, .. } => grpc_call::call(port, path, message),
    };
    let answer = answer.map_err(|error| format!("no answer: {error}"))?;
    if is_right(request, &answer) {
        return Ok(());
    }
    Err(format!("wrong answer: {}", answer.escape_ascii().to_string().chars().take(300).collect::<String>()))
}

/// Connects, with timeouts.
pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

/// Sends a request and reads until `is_enough` or the end of the stream.
fn exchange(port: u16, request: &[u8], is_enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut stream = connect(port)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !is_enough(&answer) && answer.len() < ANSWER_BYTES_MAX {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => answer.extend(&chunk[..length]),
            Err(_) if !answer.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// The status of a response to GET.
pub(crate) fn http_get_status(port: u16, path: &str) -> Result<u16, String> {
    let answer = http_get(port, path)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| format!("wrong answer: {}", answer.escape_default()))
}

/// A response to GET: its head and its body.
pub(crate) fn http_get(port: u16, path: &str) -> Result<String, String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer =
        exchange(port, request.as_bytes(), |_| false).map_err(|error| format!("no answer: {error}"))?;
    String::from_utf8(answer).map_err(|error| format!("wrong answer: {}", error.as_bytes().escape_ascii()))
}

fn is_right(request: &TargetRequest, answer: &[u8]) -> bool {
    match request {
        TargetRequest::Resp { reply, .. } => answer.starts_with(reply.as_bytes()),
        TargetRequest::Http { answer: wanted, .. } => {
            let text = String::from_utf8_lossy(answer);
            text.starts_with("HTTP/1.1 200 ") && text.contains(wanted)
        }
        TargetRequest::Grpc { is_allowed, .. } => is_allowed(answer),
    }
}

fn resp_command(words: &[&str]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", words.len());
    for word in words.iter().map(|word| word.replace(ANY_NUMBER, SOME_NUMBER)) {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    command.into_bytes()
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let body = body.replace(ANY_NUMBER, SOME_NUMBER);
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{TargetRequest, is_right, resp_command};

    #[test]
    fn a_command_is_an_array_of_bulk_strings_with_a_number() {
        assert_eq!(
            resp_command(&["INCR", "user:__rand_int__"]),
            b"*2\r\n$4\r\nINCR\r\n$17\r\nuser:000000000042\r\n"
        );
    }

    #[test]
    fn an_answer_is_right_if_it_allows() {
        let http = TargetRequest::Http { path: "/", body: String::new(), answer: r#""allowed":true"# };
        assert!(is_right(&http, b"HTTP/1.1 200 OK\r\n\r\n{\"allowed\":true}"));
        assert!(!is_right(&http, b"HTTP/1.1 200 OK\r\n\r\n{\"allowed\":false}"));
        assert!(!is_right(&http, b"HTTP/1.1 400 Bad Request\r\n\r\n\"allowed\":true"));
        let resp = TargetRequest::Resp { command: Vec::new(), reply: "*5\r\n:0\r\n" };
        assert!(is_right(&resp, b"*5\r\n:0\r\n:16\r\n"));
        assert!(!is_right(&resp, b"-ERR unknown command\r\n"));
    }
}
