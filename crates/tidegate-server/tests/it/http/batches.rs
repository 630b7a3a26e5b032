//! Batches.

use super::*;

fn batch(requests: &[&str]) -> String {
    format!(r#"{{"requests": [{}]}}"#, requests.join(","))
}

const ANN: &str = r#"{"domain": "api", "attributes": {"user": "ann"}}"#;
const BOB: &str = r#"{"domain": "api", "attributes": {"user": "bob"}, "cost": 2}"#;

#[test]
fn results_keep_the_request_order() {
    let server = Server::new(RULES);
    let response = post(&server, "/v1/check", &batch(&[ANN, BOB, ANN, ANN, BOB]));
    assert_eq!(response.status, 200, "also if some requests are denied");
    assert_eq!(response.own_headers(), ["content-type: application/json"]);
    let results = response.json()["results"].clone();
    let results = results.as_array().unwrap();
    let decisions: Vec<&str> = results.iter().map(|result| result["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allowed", "allowed", "allowed", "denied", "denied"]);
    let remaining: Vec<u64> = results.iter().map(|result| result["remaining"].as_u64().unwrap()).collect();
    assert_eq!(remaining, [1, 0, 0, 0, 0]);
}

#[test]
fn a_batch_of_peeks_charges_nothing() {
    let server = Server::new(RULES);
    for _ in 0..2 {
        let response = post(&server, "/v1/peek", &batch(&[ANN, ANN, BOB]));
        let results = response.json()["results"].clone();
        let remaining: Vec<_> =
            results.as_array().unwrap().iter().map(|one| one["remaining"].clone()).collect();
        assert_eq!(remaining, [1, 1, 0]);
    }
}

#[test]
fn an_invalid_request_charges_nothing() {
    let server = Server::new(RULES);
    let wrong = batch(&[ANN, BOB, r#"{"domain": "api", "attributes": {"user": 5}}"#]);
    let response = post(&server, "/v1/check", &wrong);
    response.assert_problem(400, &["requests[2]: invalid type: integer `5`", r#""line":1,"column":"#]);
    let nameless = post(&server, "/v1/check", &batch(&[ANN, r#"{"attributes": {}}"#]));
    nameless.assert_problem(400, &["requests[1]: the request has no domain"]);
    assert_eq!(post(&server, "/v1/peek", ANN).json()["remaining"], 1);
}

#[test]
fn batch_size_limit() {
    let server = Server::new(RULES);
    let most = post(&server, "/v1/check", &batch(&[ANN; 1000]));
    assert_eq!(most.json()["results"].as_array().unwrap().len(), 1000);
    let more = post(&server, "/v1/check", &batch(&[ANN; 1001]));
    more.assert_problem(400, &["there are more than 1000 requests"]);
    post(&server, "/v1/check", &batch(&[])).assert_problem(400, &["the list of requests is empty"]);
}

#[test]
fn batch_requests_wait_concurrently() {
    let server = Server::new(
        "
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 30m, burst: 1 }
    action: { delay: { max_wait: 1h } }
",
    );
    let of = |user: &str| format!(r#"{{"domain": "api", "attributes": {{"user": "{user}"}}}}"#);
    let (ann, bob) = (of("ann"), of("bob"));
    let response = std::thread::scope(|scope| {
        let batch_thread = scope.spawn(|| post(&server, "/v1/check", &batch(&[&ann, &ann, &bob, &bob])));
        // Bob's second request waits at the same time as Ann's.
        wait_until(&server, "both requests wait", || server.app.engine.waiting_requests() == 2);
        server.release_all();
        batch_thread.join().unwrap()
    });
    let results = response.json()["results"].clone();
    let waited: Vec<u64> =
        results.as_array().unwrap().iter().map(|one| one["waited_ms"].as_u64().unwrap()).collect();
    assert_eq!((waited[0], waited[2]), (0, 0), "no request waits for another limit");
    assert!(waited[1] > 0 && waited[3] > 0, "{waited:?}");
}

#[test]
fn the_whole_batch_may_wait() {
    let server = Server::new(
        "
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 3s, burst: 1 }
    action: { delay: { max_wait: 1h } }
",
    );
    let response = std::thread::scope(|scope| {
        let batch_thread = scope.spawn(|| post(&server, "/v1/check", &batch(&[ANN; 1000])));
        wait_until(&server, "the requests wait", || server.app.engine.waiting_requests() >= 900);
        server.release_all();
        batch_thread.join().unwrap()
    });
    let results = response.json()["results"].clone();
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 1000);
    assert!(results.iter().all(|result| result["decision"] == "allowed"), "{results:?}");
}

#[test]
fn too_many_limits_fail_one_request() {
    let limits: String = (1..=30).map(|number| format!("      - {number}000 per hour\n")).collect();
    let rule = |name: &str| format!("  - name: {name}\n    match: {{ many: \"1\" }}\n    limits:\n{limits}");
    // 1,050 limits.
    let rules: String = (0..35).map(|number| rule(&format!("r{number}"))).collect();
    let server = Server::new(&format!("domain: api\nrules:\n{rules}"));
    let many = r#"{"domain": "api", "attributes": {"many": "1"}}"#;
    let few = r#"{"domain": "api", "attributes": {}}"#;
    post(&server, "/v1/check", many).assert_problem(500, &["too many limits"]);
    post(&server, "/v1/peek", many).assert_problem(500, &["too many limits"]);
    for path in ["/v1/check", "/v1/peek"] {
        let results = post(&server, path, &batch(&[few, many])).json()["results"].clone();
        assert_eq!(results[0]["decision"], "allowed");
        assert_eq!(results[1]["status"], 500);
    }
}

/// A unit comes back every microsecond, so each reading of the clock would show other units left.
#[test]
fn the_requests_of_a_batch_are_decided_at_one_instant() {
    let server = Server::new("{ domain: api, rules: [ { name: all, limit: 1000000 per second } ] }");
    let response = post(&server, "/v1/check", &batch(&[ANN; 16]));
    let results = response.json()["results"].clone();
    let remaining: Vec<u64> =
        results.as_array().unwrap().iter().map(|result| result["remaining"].as_u64().unwrap()).collect();
    assert_eq!(remaining, (999_984..1_000_000).rev().collect::<Vec<u64>>());
}
