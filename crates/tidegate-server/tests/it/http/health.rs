//! Health, readiness, metrics and the index page.

use tidegate_server::serve::listen::{Tls, TlsFiles};
use tidegate_server::serve::status::{CertificateStatus, OngoingFailure};

use super::*;

#[test]
fn alive_and_ready_on_both_listeners() {
    let server = Server::new(RULES);
    for address in [server.http, server.admin] {
        let mut client = Client::connect(address);
        for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
            let response = client.get(path);
            assert_eq!((response.status, response.body.as_str()), (200, body), "{path}");
            client.send(format!("HEAD {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
            let head = client.reply_to("HEAD");
            assert_eq!((head.status, head.header("content-length")), (200, Some(&*body.len().to_string())));
        }
        let metrics = client.get("/metrics");
        assert_eq!(metrics.status, 200);
        assert!(
            metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"),
            "{metrics:?}"
        );
    }
}

#[test]
fn verbose_says_what_is_loaded() {
    let server = Server::new(RULES);
    for address in [server.http, server.admin] {
        for query in ["verbose", "verbose=true", "a=b&verbose"] {
            let health = Client::connect(address).get(&format!("/healthz?{query}"));
            assert_eq!((health.status, health.header("content-type")), (200, Some("application/json")));
            let health = health.json();
            assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!(health["ready"], true);
            assert_eq!(health["rules"]["domains"], serde_json::json!(["api"]));
            assert_eq!(health["rules"]["rules"], 2);
            assert_eq!(health["rules"]["failure"], serde_json::Value::Null);
            assert!(health["store"]["bytes_used"].is_u64() && health["uptime_ms"].is_u64(), "{health}");
        }
    }
}

#[test]
fn causes_and_paths_are_admin_only() {
    let server = Server::new(RULES);
    let status = &server.app.status;
    let broken =
        tidegate::rules::parse("broken.yaml", "domain: api\nrules: [ { name: a, limit: 5 per minut } ]");
    status.rules_rejected(broken.unwrap_err());
    let files = TlsFiles { cert: "no-such/cert.pem".into(), key: "no-such/key.pem".into(), client_ca: None };
    let error = Tls::load(files).err().unwrap();
    status.set_certificate(CertificateStatus {
        path: "no-such/cert.pem".into(),
        loaded_at: status.now(),
        replacements: 0,
        rejections: 1,
        failure: Some(OngoingFailure { since: status.now(), error }),
    });
    let operators = Client::connect(server.admin).get("/healthz?verbose");
    for text in
        ["rules.yaml", "unknown unit of time `minut`", "no-such/cert.pem", "cannot read the", "listeners"]
    {
        assert!(operators.body.contains(text), "{text}: {operators:?}");
    }
    let anyone = Client::connect(server.http).get("/healthz?verbose");
    for text in ["yaml", "minut", "pem", "cannot read", "path", "listeners", "report", "error"] {
        assert!(!anyone.body.contains(text), "{text}: {anyone:?}");
    }
    let anyone = anyone.json();
    assert_eq!((&anyone["rules"]["refused"], &anyone["certificate"]["refused"]), (&1.into(), &1.into()));
    for failed in ["rules", "certificate"] {
        assert!(anyone[failed]["failure"]["at_ms"].is_u64(), "no failure: {anyone}");
    }
    assert_eq!(anyone["ready"], true, "the previous rules stay active");
}

#[test]
fn not_ready_before_rules_are_loaded() {
    let server = Server::new(RULES);
    server.app.status.rules_loaded(Vec::new(), &server.app.engine.rules());
    assert_eq!(Client::connect(server.http).get("/readyz").status, 200);
    let unloaded = Server::without_rules();
    Client::connect(unloaded.http).get("/readyz").assert_problem(503, &["no rules are loaded yet"]);
    Client::connect(unloaded.http).get("/healthcheck").assert_problem(500, &["no rules are loaded yet"]);
    assert_eq!(Client::connect(unloaded.http).get("/healthz").status, 200, "alive anyway");
    assert_eq!(Client::connect(unloaded.http).get("/healthz?verbose").json()["ready"], false);
}

#[test]
fn the_index_lists_every_path() {
    let server = Server::new(RULES);
    for address in [server.http, server.admin] {
        let mut client = Client::connect(address);
        let index = client.get("/");
        assert_eq!((index.status, index.header("content-type")), (200, Some("text/plain; charset=utf-8")));
        let missing = client.get("/nowhere");
        missing.assert_problem(404, &["there is no /nowhere"]);
        for path in missing.json()["paths"].as_array().unwrap() {
            assert!(index.body.contains(path.as_str().unwrap()), "{path}");
        }
    }
}

#[test]
fn other_paths_and_methods() {
    let server = Server::new(RULES);
    let mut client = Client::connect(server.http);
    client.get("/v1/chek").assert_problem(404, &["did you mean `/v1/check`?", r#""paths":["/v1/check""#]);
    client.get("/v1/check/").assert_problem(404, &[]);
    for method in ["PUT", "DELETE", "OPTIONS"] {
        assert_eq!(client.request(method, "/v1/check", &[], b"").header("allow"), Some("POST, GET"));
    }
    for path in ["/v1/peek", "/v1/explain", "/v1/acquire", "/v1/renew", "/v1/release"] {
        for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
            let response = client.request(method, path, &[], b"");
            response.assert_problem(405, &["use POST"]);
            assert_eq!(response.header("allow"), Some("POST"));
        }
    }
    let response = client.post("/healthz", "{}");
    response.assert_problem(405, &[]);
    assert_eq!(response.header("allow"), Some("GET, HEAD"));
    for path in ["/v1/refund", "/v1/reset", "/v1/rules", "/v1/signals", "/v1/signals/spare", "/v1/reload"] {
        client.post(path, "{}").assert_problem(404, &["is on the admin listener"]);
    }
    assert_eq!(client.get("/v1/peek?x=y").status, 405, "a query is ignored");
}
