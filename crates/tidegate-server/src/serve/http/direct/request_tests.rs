use super::*;
use crate::serve::App;
use crate::serve::settings::Bounds;

const HEAD: &str = "POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1:80\r\ncontent-length: 2\r\n\r\n";

#[track_caller]
fn assert_arrived(input: &str, expected: Arrived<'_, '_>) {
    let app = App::in_memory(Vec::new()).unwrap();
    let hosts = AllowedHosts::Local { names: Box::new([]) };
    let bounds = Bounds { body_bytes_max: 1 << 12, ..Bounds::default() };
    let checks = DirectChecks { app: &app, hosts: &hosts, bounds: &bounds, forward_auth: None, peer: None };
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    assert_eq!(read_request(input.as_bytes(), &mut headers, &checks), expected, "{input:?}");
}

fn with_header(header: &str) -> String {
    HEAD.replacen("\r\n\r\n", &format!("\r\n{header}\r\n\r\n{{}}"), 1)
}

#[test]
fn a_whole_check() {
    let request_bytes = HEAD.len() + 2;
    assert_arrived(&format!("{HEAD}{{}}"), Arrived::Check { body: b"{}", request_bytes });
    assert_arrived(&format!("{HEAD}{{}}POST"), Arrived::Check { body: b"{}", request_bytes });
    for header in [
        "Connection: Keep-Alive",
        "content-type: application/json",
        "Content-Type: text/json; charset=utf-8",
        "content-type: text/plain",
        "accept: */*",
        "te: trailers",
        "x-forwarded-for: 192.0.2.1",
    ] {
        let input = with_header(header);
        assert_arrived(&input, Arrived::Check { body: b"{}", request_bytes: input.len() });
    }
}

#[test]
fn a_part_of_a_check() {
    for end in [1, 10, HEAD.len() - 1] {
        assert_arrived(&HEAD[..end], Arrived::PartOfHead);
    }
    let request_bytes = HEAD.len() + 2;
    for input in [HEAD.to_owned(), format!("{HEAD}{{")] {
        assert_arrived(&input, Arrived::PartOfBody { request_bytes });
    }
}

#[test]
fn anything_else_is_for_hyper() {
    for header in [
        "transfer-encoding: chunked",
        "Transfer-Encoding: identity",
        "expect: 100-continue",
        "connection: close",
        "connection: keep-alive, upgrade",
        "upgrade: h2c",
        "origin: http://127.0.0.1",
        "sec-fetch-site: same-origin",
        "referer: http://127.0.0.1/",
        "content-type: text/html",
        // Twice.
        "content-length: 2",
        "Host: 127.0.0.1",
    ] {
        assert_arrived(&with_header(header), Arrived::Other);
    }
    for (part, other) in [
        ("POST", "PUT"),
        ("/v1/check", "/v1/peek"),
        ("/v1/check", "/v1/check?override=true"),
        ("/v1/check", "http://127.0.0.1/v1/check"),
        ("HTTP/1.1", "HTTP/1.0"),
        ("127.0.0.1:80", "pages.example"),
        ("content-length: 2", "content-length: +2"),
        ("content-length: 2", "content-length: 2, 2"),
        ("content-length: 2", "content-length: "),
        ("content-length: 2", "content-length: 99999999999999999999999"),
        // More than the body may have, and more than the whole request may have.
        ("content-length: 2", "content-length: 4097"),
        ("content-length: 2", "content-length: 8192"),
        ("content-length: 2", "accept: */*"),
        ("content-length", "content-length "),
        ("POST", "\u{16}\u{3}\u{1}"),
    ] {
        assert_arrived(&format!("{}{{}}", HEAD.replace(part, other)), Arrived::Other);
    }
    assert_arrived(&with_header(&"a: b\r\n".repeat(HEADERS_MAX)), Arrived::Other);
    let long_header = format!("a: {}", "b".repeat(REQUEST_BYTES_MAX));
    assert_arrived(&with_header(&long_header)[..REQUEST_BYTES_MAX], Arrived::Other);
}

#[test]
fn a_proxy_asks() {
    let head = "GET /v1/authorize HTTP/1.1\r\nhost: pages.example\r\norigin: null\r\n\r\n";
    let lines = [("host", "pages.example"), ("origin", "null")];
    let headers = lines.map(|(name, value)| httparse::Header { name, value: value.as_bytes() });
    let authorize =
        |deny_status, request_bytes| Arrived::Authorize { headers: &headers, deny_status, request_bytes };
    assert_arrived(head, authorize(DenyStatus::Real, head.len()));
    assert_arrived(&format!("{head}GET"), authorize(DenyStatus::Real, head.len()));
    let with_status = head.replace("authorize", "authorize?deny_status=403");
    let forbidden = DenyStatus::Always(StatusCode::FORBIDDEN);
    assert_arrived(&with_status, authorize(forbidden, with_status.len()));
    let by_method = head.replace("GET", "PURGE");
    assert_arrived(&by_method, authorize(DenyStatus::Real, by_method.len()));
    for (part, other) in [
        ("GET", "HEAD"),
        ("GET", "CONNECT"),
        ("authorize", "authorize/"),
        ("authorize", "authorize?deny_status=200"),
        ("authorize", "authorize?x"),
        ("HTTP/1.1", "HTTP/1.0"),
        ("origin: null", "content-length: 0"),
        ("origin: null", "transfer-encoding: chunked"),
        ("origin: null", "connection: close"),
        ("origin: null", "upgrade: h2c"),
        ("origin: null", "expect: 100-continue"),
    ] {
        assert_arrived(&head.replace(part, other), Arrived::Other);
    }
}
