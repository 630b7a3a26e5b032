//! `/v1/authorize`: proxies ask about requests.

use std::sync::Arc;

use tidegate::identity::{ClientAddress, ForwardedHeader, Identity, Source};
use tidegate::store::NodeStore;
use tidegate::{Engine, MemoryStore, StoreError, SystemClock, rules};
use tidegate_server::serve::http::ProxyProtocol;
use tidegate_server::serve::http::forward_auth::ForwardAuth;
use tidegate_server::serve::{App, ForwardAuthSource};

use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use super::server::ServerOptions;
use super::*;

const WEB: &str = "
domain: web
rules:
  - { name: login, match: { path: /login }, key: [ip], limit: 2 per hour }
  - { name: post, match: { method: POST, host: shop.example }, key: [ip], limit: 2 per hour }
  - { name: plan, match: { header.x-plan: free }, key: [user], limit: 1 per hour }
  - { name: own, match: { header.x-tidegate-plan: free }, key: [ip], limit: 0 per hour }
";

fn server_with(rules: &str, source: ForwardAuthSource, hops: u8) -> Server {
    Server::with(rules, options(source, hops))
}

fn options(source: ForwardAuthSource, hops: u8) -> ServerOptions {
    let identity = Identity::default()
        .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, hops))
        .with_user(Source::header("x-user"));
    let forward_auth = Some(ForwardAuth::new("web", source, identity));
    ServerOptions { forward_auth, ..ServerOptions::default() }
}

fn nginx_server() -> Server {
    server_with(WEB, ForwardAuthSource::Nginx, 1)
}

/// A request as nginx sends it. Connections start on the direct path.
fn nginx_request(target: &str, address: &str, more: &str) -> String {
    format!(
        "GET /v1/authorize?deny_status=403 HTTP/1.1\r\nhost: shop.example\r\nx-original-method: GET\r\n\
         x-original-uri: {target}\r\nx-forwarded-for: {address}\r\n{more}\r\n"
    )
}

#[track_caller]
fn ask(client: &mut Client, request: &str) -> Response {
    client.send(request);
    client.reply()
}

/// A client whose connection hyper serves.
fn client_of_hyper(server: &Server) -> Client {
    let mut client = Client::connect(server.http);
    assert_eq!(client.get("/healthz").status, 200);
    client
}

#[test]
fn without_a_domain_it_is_a_404_that_says_so() {
    let server = Server::new(WEB);
    let mut client = Client::connect(server.http);
    for path in ["/v1/authorize", "/v1/authorize?deny_status=403"] {
        client.get(path).assert_problem(404, &["--forward-auth-domain"]);
    }
}

#[test]
fn both_paths_answer_alike() {
    let (direct_server, hyper_server) = (nginx_server(), nginx_server());
    let (mut direct, mut hyper) = (Client::connect(direct_server.http), client_of_hyper(&hyper_server));
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let request = nginx_request("/login", "203.0.113.9", "");
        let [direct, hyper] = [&mut direct, &mut hyper].map(|client| ask(client, &request));
        assert_eq!((direct.status, direct.own_headers()), (hyper.status, hyper.own_headers()));
        assert_eq!(direct.body, hyper.body);
        statuses.push(direct.status);
    }
    assert_eq!(statuses, [200, 200, 403]);
}

#[test]
fn allowed_and_denied() {
    for via_hyper in [false, true] {
        let server = nginx_server();
        let mut client = if via_hyper { client_of_hyper(&server) } else { Client::connect(server.http) };
        let request = nginx_request("/login?next=/", "203.0.113.9", "").replace("?deny_status=403", "");
        let allowed = ask(&mut client, &request);
        assert_eq!((allowed.status, &*allowed.body), (200, ""));
        assert_eq!(allowed.header("x-tidegate-decision"), Some("allowed"));
        assert_eq!(allowed.header("x-tidegate-status"), None);
        assert!(allowed.header("ratelimit").unwrap().starts_with(r#""login/1";r=1;"#));
        assert_eq!(ask(&mut client, &request).status, 200);
        let denied = ask(&mut client, &request);
        denied.assert_problem(429, &["login/1 is exceeded", "violated-policies"]);
        assert!(denied.header("retry-after").is_some());
        assert_eq!(denied.header("x-tidegate-decision"), Some("denied"));
        assert_eq!(denied.header("x-tidegate-status"), Some("429"));
        assert!(denied.json().get("limits").is_none(), "an end user may read it: {denied:?}");
        let other = nginx_request("/login", "203.0.113.10", "");
        assert_eq!(ask(&mut client, &other).status, 200, "another address");
    }
}

#[test]
fn what_does_not_pass_has_the_requested_status() {
    let server = nginx_server();
    for mut client in [Client::connect(server.http), client_of_hyper(&server)] {
        let request = nginx_request("/login", "203.0.113.9", "");
        let last = (0..3).map(|_| ask(&mut client, &request)).last().unwrap();
        assert_eq!((last.status, last.header("x-tidegate-status")), (403, Some("429")));
        assert!(last.header("retry-after").is_some());
        // The path has no single meaning.
        let bad = ask(&mut client, &nginx_request("/a%2flogin", "203.0.113.9", ""));
        assert_eq!((bad.status, bad.header("x-tidegate-status")), (403, Some("400")));
        let many: String = (0..300).map(|index| format!("x-{index}: 1\r\n")).collect();
        let many = ask(&mut client, &nginx_request("/", "203.0.113.9", &many));
        assert_eq!((many.status, many.header("x-tidegate-status")), (403, Some("431")));
        let unauthorized = ask(&mut client, &request.replace("=403", "=401"));
        assert_eq!((unauthorized.status, unauthorized.header("x-tidegate-status")), (401, Some("429")));
        // A client whose proxy passes on its query cannot let itself pass.
        for status in ["200", "204", "500", "", "403x"] {
            let request = request.replace("=403", &format!("={status}"));
            ask(&mut client, &request).assert_problem(400, &["deny_status"]);
        }
    }
    let page = server.app.metrics_page();
    assert!(!page.contains("cross_site"), "{page}");
}

#[test]
fn over_a_shared_store() {
    let rules = "
domain: web
rules:
  - { name: strict, match: { path: /strict }, key: [ip], limit: 1 per hour, on_store_failure: deny }
  - { name: open, match: { path: /open }, key: [ip], limit: 1 per hour, on_store_failure: allow }
";
    let remote = FakeStore::new(SystemClock::new());
    let store = NodeStore::shared(Arc::new(remote.clone()), Arc::new(MemoryStore::bounded(1 << 20)));
    let domains = rules::parse("rules.yaml", rules).unwrap().domains;
    let app = App::new(Engine::with_store(domains, store, SystemClock::new()).unwrap());
    let server = Server::start(app, options(ForwardAuthSource::Nginx, 1));
    let mut client = Client::connect(server.http);
    let strict = nginx_request("/strict", "203.0.113.9", "");
    assert_eq!(ask(&mut client, &strict).status, 200);
    let denied = ask(&mut client, &strict);
    assert_eq!((denied.status, denied.header("x-tidegate-status")), (403, Some("429")));

    remote.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    let undecided = ask(&mut client, &strict);
    assert_eq!((undecided.status, undecided.header("x-tidegate-status")), (403, Some("503")));
    let plain = ask(&mut client, &strict.replace("?deny_status=403", ""));
    assert_eq!((plain.status, plain.header("x-tidegate-status")), (503, Some("503")));
    assert!(plain.header("retry-after").is_some());
    assert_eq!(undecided.header("retry-after"), plain.header("retry-after"));
    let open = [(); 2].map(|()| ask(&mut client, &nginx_request("/open", "203.0.113.9", "")).status);
    assert_eq!(open, [200, 200]);
}

#[test]
fn a_missing_header_of_a_named_source_is_a_400() {
    let server = nginx_server();
    let mut client = Client::connect(server.http);
    for header in ["x-original-method", "x-original-uri"] {
        let request = nginx_request("/login", "203.0.113.9", "").replace("?deny_status=403", "");
        // The headers of other proxies come from the client.
        let request = request.replace(header, &header.replace("original", "forwarded"));
        ask(&mut client, &request).assert_problem(400, &[header, "--forward-auth-source nginx"]);
    }
    let server = server_with(WEB, ForwardAuthSource::Caddy, 1);
    let mut client = Client::connect(server.http);
    let request = nginx_request("/login", "203.0.113.9", "").replace("?deny_status=403", "");
    ask(&mut client, &request).assert_problem(400, &["x-forwarded-method", "--forward-auth-source caddy"]);
    let twice = request.replace("original", "forwarded");
    let twice =
        twice.replace("x-forwarded-for", "x-forwarded-host: a\r\nx-forwarded-uri: /\r\nx-forwarded-for");
    ask(&mut client, &twice).assert_problem(400, &["x-forwarded-uri appears twice"]);
}

#[test]
fn any_source_takes_what_there_is() {
    let server = server_with(WEB, ForwardAuthSource::Any, 0);
    let mut client = Client::connect(server.http);
    let answer = |client: &mut Client, headers: &str| {
        let answer = ask(client, &format!("GET /v1/authorize HTTP/1.1\r\n{headers}\r\n"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("ratelimit").map(str::to_owned)
    };
    assert_eq!(answer(&mut client, ""), None, "it falls under no rule");
    let by_original = answer(&mut client, "x-original-uri: /login\r\n").unwrap();
    assert!(by_original.starts_with(r#""login/1";r=1;"#), "{by_original}");
    let by_forwarded = answer(&mut client, "x-forwarded-uri: //login\r\nx-original-uri: /\r\n").unwrap();
    assert!(by_forwarded.starts_with(r#""login/1";r=0;"#), "{by_forwarded}");
    let host = "x-forwarded-method: POST\r\nx-forwarded-host: shop.example:8080\r\n";
    assert!(answer(&mut client, host).unwrap().starts_with(r#""post/1";r=1;"#));
}

#[test]
fn any_method_and_http_1_0() {
    let server = nginx_server();
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE", "HEAD"] {
        let mut client = Client::connect(server.http);
        client.send(nginx_request("/", "203.0.113.9", "").replacen("GET", method, 1));
        assert_eq!(client.reply_to(method).status, 200, "{method}");
    }
    let mut client = Client::connect(server.http);
    client.send(
        nginx_request("/login", "203.0.113.9", "connection: close\r\n").replace("HTTP/1.1", "HTTP/1.0"),
    );
    assert!(client.read_to_end().starts_with("HTTP/1.0 200"));
}

/// Its reply has no body, also if it is denied. Otherwise the proxy would take the body for the next reply.
#[test]
fn a_denied_head_keeps_the_connection_in_step() {
    let server = nginx_server();
    for mut client in [Client::connect(server.http), client_of_hyper(&server)] {
        let get = nginx_request("/login", "203.0.113.9", "");
        let head = get.replacen("GET", "HEAD", 1);
        let denied_get = (0..3).map(|_| ask(&mut client, &get)).last().unwrap();
        assert!(!denied_get.body.is_empty());
        client.send([&*head, &head, &get].concat());
        for _ in 0..2 {
            let denied = client.reply_to("HEAD");
            assert_eq!((denied.status, denied.header("x-tidegate-status")), (403, Some("429")));
            assert_eq!(
                (denied.header("content-length"), &*denied.body),
                (denied_get.header("content-length"), "")
            );
        }
        let in_step = client.reply();
        assert_eq!((in_step.status, in_step.body), (403, denied_get.body));
    }
}

#[test]
fn browsers_headers_do_not_matter() {
    let server = nginx_server();
    let mut client = Client::connect(server.http);
    let more = "origin: http://evil.example\r\nsec-fetch-site: cross-site\r\ncookie: a=b\r\n";
    assert_eq!(ask(&mut client, &nginx_request("/", "203.0.113.9", more)).status, 200);
    let quoted = nginx_request(r#"/a"b'<>?q="x""#, "203.0.113.9", "");
    assert_eq!(ask(&mut client, &quoted).status, 200);
    let bytes = nginx_request("/\u{e9}", "203.0.113.9", "");
    assert_eq!(ask(&mut client, &bytes).status, 200);
}

#[test]
fn clients_gain_nothing_by_headers() {
    let server = nginx_server();
    let mut statuses = Vec::new();
    for forged in 1..=4 {
        let mut client = Client::connect(server.http);
        let more = format!(
            "x-forwarded-uri: /other\r\nx-tidegate-decision: allowed\r\nx-tidegate-plan: free\r\nforwarded: for=10.0.0.{forged}\r\n"
        );
        // The client's entry comes before that of the proxy.
        let addresses = format!("10.0.0.{forged}, 203.0.113.9");
        statuses.push(ask(&mut client, &nginx_request("/login", &addresses, &more)).status);
    }
    assert_eq!(statuses, [200, 200, 403, 403], "and the rule for x-tidegate-plan never matches");
}

#[test]
fn headers_that_rules_name_are_attributes() {
    let server = nginx_server();
    let mut client = Client::connect(server.http);
    let mut status = |more: &str| ask(&mut client, &nginx_request("/", "203.0.113.9", more)).status;
    assert_eq!(status("x-plan: free\r\nx-user: ann\r\n"), 200);
    assert_eq!(status("X-Plan: free\r\nX-User: ann\r\n"), 403);
    assert_eq!(status("x-plan: free\r\nx-user: bob\r\n"), 200);
    assert_eq!(status("x-plan: paid\r\nx-user: ann\r\n"), 200);
}

/// No spelling of /login is a request that the rule for /login does not see.
#[test]
fn no_spelling_escapes_the_rule() {
    for via_hyper in [false, true] {
        let server = nginx_server();
        let mut client = if via_hyper { client_of_hyper(&server) } else { Client::connect(server.http) };
        let mut seen = 0;
        for target in [
            "/login",
            "//login",
            "/./login",
            "/a/../login",
            "/%6cogin",
            "/%6C%6f%67in",
            "/login?x=/",
            "/login/",
            "/login/.",
            "/login;v=1",
            "/a/%2e%2e/login",
            "http://other.example/login",
            // Refused, because upstreams disagree.
            "/%2flogin",
            "/a%5c..%5clogin",
            "/login%00",
            "/..;/login",
            "/%e0%81%acogin",
            "/%f0%80%81%acogin",
            "/login%ff",
        ] {
            let answer = ask(&mut client, &nginx_request(target, "203.0.113.9", ""));
            let real = answer.header("x-tidegate-status");
            assert!(
                answer.status == 200 && seen < 2 || matches!(real, Some("429" | "400")),
                "{target}: {answer:?}"
            );
            seen += u32::from(answer.status == 200);
        }
        assert_eq!(seen, 2);
    }
}

/// A proxy that sends a body must not make Tidegate take the body for another request.
#[test]
fn a_body_ends_the_connection() {
    let server = nginx_server();
    let smuggled = nginx_request("/login", "203.0.113.9", "");
    for framing in
        [format!("content-length: {}\r\n", smuggled.len()), "transfer-encoding: chunked\r\n".to_owned()]
    {
        for whole in [true, false] {
            let mut client = Client::connect(server.http);
            client.send(nginx_request("/", "203.0.113.9", &framing));
            if whole {
                client.send(&smuggled);
            }
            let answer = client.reply();
            assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{framing}");
            client.finish();
            assert_eq!(client.read_to_end(), "", "{framing}");
        }
    }
    let mut client = Client::connect(server.http);
    let fresh = ask(&mut client, &smuggled);
    assert!(fresh.header("ratelimit").unwrap().starts_with(r#""login/1";r=1;"#), "{fresh:?}");
}

#[test]
fn large_heads() {
    let server = nginx_server();
    let cookie = |kib: usize| format!("cookie: {}\r\n", "c".repeat(kib << 10));
    let mut client = Client::connect(server.http);
    assert_eq!(ask(&mut client, &nginx_request("/", "203.0.113.9", &cookie(31))).status, 200);
    let large = ask(&mut client, &nginx_request("/", "203.0.113.9", &cookie(60)));
    assert_eq!((large.status, large.header("x-tidegate-status")), (403, Some("431")));
    // hyper answers, and does not know the query. docs/proxies.md says so, and the settings of proxies refuse all statuses.
    assert_eq!(ask(&mut client, &nginx_request("/", "203.0.113.9", &cookie(70))).status, 431);
}

/// No proxy may take the answer to such a request for one of an absent Tidegate.
#[test]
fn heads_that_are_not_http() {
    let server = nginx_server();
    for mut client in [Client::connect(server.http), client_of_hyper(&server)] {
        let unreadable = ask(&mut client, &nginx_request("/login", "203.0.113.9", "x: \u{1}\r\n"));
        assert_eq!((unreadable.status, &*unreadable.body), (400, ""));
    }
}

#[test]
fn actions() {
    let server = server_with(
        "
domain: web
rules:
  - { name: soft, match: { path: /soft }, limit: 1 per hour, action: { soft: { margin: 200% } } }
  - { name: ban, match: { path: /ban }, limit: 1 per hour, action: shadow_ban }
  - { name: slow, match: { path: /slow }, limit: { limit: 1, per: 1h, algorithm: leaky_bucket, queue: 9 } }
  - { name: held, match: { path: /held }, limit: 2 per hour burst 1, action: { delay: { max_wait: 1h } } }
",
        ForwardAuthSource::Nginx,
        1,
    );
    let mut client = Client::connect(server.http);
    for (path, decision) in [("/soft", "soft"), ("/ban", "shadow_banned"), ("/slow", "delayed")] {
        let answers = [(); 2].map(|()| ask(&mut client, &nginx_request(path, "203.0.113.9", "")));
        let decisions =
            answers.each_ref().map(|answer| (answer.status, answer.header("x-tidegate-decision").unwrap()));
        assert_eq!(decisions, [(200, "allowed"), (200, decision)]);
        let is_delayed = answers[1].header("x-tidegate-delay-ms").is_some();
        assert_eq!(is_delayed, decision == "delayed");
    }
    assert_eq!(ask(&mut client, &nginx_request("/held", "203.0.113.9", "")).status, 200);
    client.send(nginx_request("/held", "203.0.113.9", ""));
    wait_until(&server, "it waits", || server.app.engine.waiting_requests() == 1);
    client.assert_silent();
    server.release_all();
    assert_eq!(client.reply().status, 200);
}

#[test]
fn proxy_protocol_names_the_client() {
    let forward_auth = Some(ForwardAuth::new("web", ForwardAuthSource::Nginx, Identity::default()));
    let options =
        ServerOptions { forward_auth, proxy_protocol: ProxyProtocol::Required, ..ServerOptions::default() };
    let server = Server::with(WEB, options);
    let status = |address: &str| {
        let mut client = Client::connect(server.http);
        let header = format!("PROXY TCP4 {address} 10.0.0.1 50000 443\r\n");
        // With the first request in one packet, or not.
        client.send(header + &nginx_request("/login", "192.0.2.1", ""));
        client.reply().status
    };
    assert_eq!(
        ["198.51.100.7", "198.51.100.7", "198.51.100.7", "198.51.100.8"].map(status),
        [200, 200, 403, 200]
    );
    let status_after = |header: &[u8]| {
        let mut client = Client::connect(server.http);
        client.send([header, nginx_request("/login", "192.0.2.1", "").as_bytes()].concat());
        client.reply().status
    };
    const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let v2 = [V2_START, &[0x21, 0x11, 0, 12, 198, 51, 100, 9, 10, 0, 0, 1, 195, 80, 1, 187]].concat();
    assert_eq!([(); 3].map(|()| status_after(&v2)), [200, 200, 403]);
    // The address of the connection.
    let local = [V2_START, &[0x20, 0, 0, 0]].concat();
    assert_eq!([&local[..], b"PROXY UNKNOWN\r\n", &local].map(status_after), [200, 200, 403]);
    let mut without = Client::connect(server.http);
    without.send(nginx_request("/login", "192.0.2.1", ""));
    assert_eq!(without.read_to_end(), "");
    let refused = r#"tidegate_connections_refused_total{protocol="http",reason="proxy_header"} 1"#;
    assert!(server.app.metrics_page().contains(refused));
}

/// A ban has the status that the operator chose, also where other denials have the status of the proxy's choice.
#[test]
fn a_banned_address() {
    let server = nginx_server();
    let mut operator = Client::connect(server.admin);
    let mut ban = |status: u16| {
        let body = format!(
            r#"{{"key": {{"ip": "203.0.113.9"}}, "rule": "login", "for": "15m", "status": {status}}}"#
        );
        let banned =
            operator.request("POST", "/v1/ban", &["content-type: application/json"], body.as_bytes());
        assert_eq!(banned.status, 200, "{banned:?}");
    };
    let plain = nginx_request("/login", "203.0.113.9", "").replace("?deny_status=403", "");
    for mut client in [Client::connect(server.http), client_of_hyper(&server)] {
        ban(403);
        let forbidden = ask(&mut client, &plain);
        forbidden.assert_problem(403, &["is blocked"]);
        assert_eq!(forbidden.header("x-tidegate-status"), Some("403"));
        assert!(forbidden.header("retry-after").is_some(), "{forbidden:?}");
        ban(429);
        assert_eq!(ask(&mut client, &plain).status, 429);
        let chosen = ask(&mut client, &nginx_request("/login", "203.0.113.9", ""));
        assert_eq!((chosen.status, chosen.header("x-tidegate-status")), (403, Some("429")));
        assert_eq!(ask(&mut client, &nginx_request("/login", "203.0.113.10", "")).status, 200);
    }
}
