"""HTTP, with curl."""

import json

import pytest

RULES = """
domain: api
rules:
  - name: login
    match: { user: { exists: true } }
    key: [user]
    limits:
      - { name: burst, limit: 2, per: 1h, algorithm: fixed_window, align: first_hit }
      - { name: daily, limit: 100, per: 1d, algorithm: fixed_window, align: first_hit }
  - name: jobs
    match: { job: { exists: true } }
    key: [job]
    limit: { limit: 1, algorithm: concurrency, ttl: 1h }
  - name: elastic
    match: { tenant: { exists: true } }
    key: [tenant]
    limit: { limit: 10, per: 1d, algorithm: fixed_window, align: first_hit }
    action: { elastic: { min: 1, max: 10, signal: capacity } }
"""


@pytest.fixture
def server(tidegate):
    # The server reloads files only on request.
    return tidegate(RULES, flags=["--reload-every", "24h"])


class Answer:
    def __init__(self, said):
        # Text mode has converted CRLF to LF.
        head, _, self.text = said.partition("\n\n")
        status, *headers = head.splitlines()
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in headers)}

    @property
    def json(self):
        return json.loads(self.text)


@pytest.fixture
def curl(run):
    """Runs curl(url, body, more arguments) and returns the answer."""

    def ask(url, body=None, *words):
        data = [] if body is None else ["-d", body if isinstance(body, str) else json.dumps(body)]
        # Without this header, curl waits for `100 Continue` before it sends a long body.
        return Answer(run("curl", "-sS", "-i", "-H", "expect:", *data, *words, url).stdout)

    return ask


def ann(**more):
    return {"domain": "api", "attributes": {"user": "ann"}, **more}


def test_200_then_429_with_all_headers(server, curl):
    url = server.url + "/v1/check"
    first = curl(url, ann())
    assert first.status == 200
    answer = first.json
    assert {name: answer[name] for name in ("decision", "rule", "limit", "remaining", "delay_ms", "degraded")} == {
        "decision": "allowed",
        "rule": "login",
        "limit": "burst",
        "remaining": 1,
        "delay_ms": 0,
        "degraded": False,
    }
    assert answer["retry_after_ms"] == 0 and 0 < answer["reset_after_ms"] <= 86_400_000
    assert [limit["limit"] for limit in answer["limits"]] == ["burst", "daily"]
    assert first.headers["x-ratelimit-limit"] == "2"
    assert first.headers["x-ratelimit-remaining"] == "1"
    assert "retry-after" not in first.headers

    # The long form of the same request.
    long = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "ann"}], "cost": 1}]}
    assert curl(url, long).status == 200

    denied = curl(url, ann())
    assert denied.status == 429
    assert denied.headers["content-type"].startswith("application/problem+json")
    assert 0 < int(denied.headers["retry-after"]) <= 3600
    assert denied.headers["x-ratelimit-retry-after"] == denied.headers["retry-after"]
    assert denied.headers["x-ratelimit-remaining"] == "0"
    assert int(denied.headers["x-ratelimit-reset"]) > 0
    assert denied.headers["ratelimit-policy"] == '"login/burst";q=2;w=3600, "login/daily";q=100;w=86400'
    assert denied.headers["ratelimit"].startswith('"login/burst";r=0;t=')
    problem = denied.json
    assert problem["status"] == 429 and problem["title"]
    assert "login/burst" in json.dumps(problem["violated-policies"])
    assert problem["decision"] == "denied" and problem["rule"] == "login"


def test_a_batch_has_a_result_for_each(server, curl):
    batch = {"requests": [ann(cost=2), ann(), {"domain": "api", "attributes": {"nobody": "limits"}}]}
    answer = curl(server.url + "/v1/check", batch)
    assert answer.status == 200
    (results,) = [value for value in answer.json.values() if isinstance(value, list)]
    assert [result["decision"] for result in results] == ["allowed", "denied", "allowed"]


def test_a_peek_charges_nothing(server, curl):
    for _ in range(3):
        answer = curl(server.url + "/v1/peek", ann(cost=2))
        assert (answer.status, answer.json["decision"]) == (200, "allowed")
    assert curl(server.url + "/v1/peek", ann(cost=3)).json["decision"] == "denied"
    assert curl(server.url + "/v1/check", ann(cost=2)).status == 200


def test_explain(server, curl):
    assert "burst" in curl(server.url + "/v1/explain", ann()).text
    text = curl(server.url + "/v1/explain?format=text", ann())
    assert text.headers["content-type"].startswith("text/plain") and "login" in text.text


def test_acquire_renew_release(server, curl):
    job = {"domain": "api", "attributes": {"job": "report"}}
    acquired = curl(server.url + "/v1/acquire", job)
    assert acquired.status == 200
    lease = acquired.json["lease"]
    assert lease["fence"] > 0 and 0 < lease["expires_in_ms"] <= 3_600_000
    assert curl(server.url + "/v1/acquire", job).status == 429
    token = {**job, "token": lease["token"]}
    assert curl(server.url + "/v1/renew", token).status == 200
    assert curl(server.url + "/v1/release", token).status == 200
    assert curl(server.url + "/v1/release", token).status == 409, "it is already released"
    again = curl(server.url + "/v1/acquire", job)
    assert again.json["lease"]["fence"] > lease["fence"]


@pytest.mark.parametrize("addend", [2, "2"], ids=["number", "text"])
def test_json_of_envoyproxy_ratelimit(server, curl, addend):
    descriptor = {"entries": [{"key": "user", "value": "json"}], "hitsAddend": addend}
    body = {"domain": "api", "descriptors": [descriptor]}
    first = curl(server.url + "/json", body)
    assert (first.status, first.json["overallCode"]) == (200, "OK")
    second = curl(server.url + "/json", body)
    assert (second.status, second.json["overallCode"]) == (429, "OVER_LIMIT")
    assert second.json["statuses"][0]["currentLimit"]["requestsPerUnit"] == 2
    for bad in ("{", {"domain": "", "descriptors": [descriptor]}, {"domain": "api", "descriptors": []}):
        assert curl(server.url + "/json", bad).status == 400


def test_health(server, curl):
    for path in ("/healthz", "/readyz", "/healthcheck"):
        assert curl(server.url + path).status == 200
    health = curl(server.url + "/healthz?verbose").json
    assert health["ready"] is True and health["rules"]["rules"] == 3
    assert "listeners" not in health and "rules.yaml" not in json.dumps(health), "only operators may see that"
    health = curl(server.admin + "/healthz?verbose").json
    assert {one["protocol"]: one["address"] for one in health["listeners"]} == server.addresses
    assert curl(server.url + "/metrics").status == 200


def test_operators_refund_reset_and_move_limits(server, curl):
    url, json_type = server.admin + "/v1", ("-H", "content-type: application/json")
    assert curl(server.url + "/v1/check", ann(cost=2)).status == 200
    assert curl(url + "/refund", ann(cost=1), *json_type).json == {"result": "refunded", "limits": 2, "leases_kept": 0}
    assert [curl(server.url + "/v1/check", ann()).status for _ in range(2)] == [200, 429]
    reset = curl(url + "/reset", ann(), *json_type).json
    assert (reset["result"], reset["limits"], reset["not_reset"]) == ("reset", 2, [])
    assert [(each["limit"], each["key"]) for each in reset["reset"]] == [("burst", {"user": "ann"}), ("daily", {"user": "ann"})]
    assert curl(server.url + "/v1/check", ann(cost=2)).status == 200

    assert curl(url + "/signals/capacity", {"level": 0}, "-X", "PUT", *json_type).status == 200
    tenant = {"domain": "api", "attributes": {"tenant": "a"}}
    assert [curl(server.url + "/v1/check", tenant).status for _ in range(2)] == [200, 429]
    assert curl(url + "/signals/capacity", {"level": 1}, "-X", "PUT", *json_type).status == 200
    assert [curl(server.url + "/v1/check", tenant).status for _ in range(2)] == [200, 200]
    assert curl(url + "/signals").json["signals"] == [{"name": "capacity", "level": 1}]

    assert {rule["name"] for rule in curl(url + "/rules").json["rules"]} == {"login", "jobs", "elastic"}
    server.rules.write_text(RULES.replace("limit: 2,", "limit: 5,"))
    assert curl(url + "/reload", None, "-X", "POST").json["rules"] == "replaced"
    assert curl(server.url + "/v1/check", ann(cost=3)).status == 200, "two of five were used"


def test_several_requests_on_one_connection(server, run):
    body = json.dumps(ann())
    words = ["-sS", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}\n", "-d", body, server.url + "/v1/check"]
    ended = run("curl", *words, "--next", *words, "--next", *words)
    assert ended.stdout.splitlines() == ["200 1", "200 0", "429 0"]


def test_a_body_in_chunks(server, curl):
    chunked = curl(server.url + "/v1/check", ann(), "-H", "transfer-encoding: chunked")
    assert chunked.status == 200


def test_a_page_of_another_site_is_refused(server, curl):
    form = ("-H", "content-type: text/plain", "-H", "origin: http://evil.example", "-H", "sec-fetch-site: cross-site")
    refused = curl(server.url + "/json", ann(), *form)
    assert (refused.status, refused.json["title"]) == (403, "Forbidden") and refused.json["hint"]


def test_fetch_of_node(server, run, parts):
    """With a text as body, `fetch` sends text/plain."""
    script = """
        const url = process.argv[1] + "/v1/check";
        const body = JSON.stringify({ domain: "api", attributes: { user: "node" } });
        const plain = await fetch(url, { method: "POST", body });
        const headers = { "content-type": "application/json" };
        const json = await fetch(url, { method: "POST", headers, body });
        console.log(plain.status, json.status, (await json.json()).remaining);
    """
    said = run(parts / "bin/node", "--input-type=module", "-e", script, server.url)
    assert said.stdout == "200 200 0\n"
