"""Real proxies with the files of examples/proxies, which ask Tidegate before each request: docs/proxies.md."""

import pytest
from harness.proxies import FILES, Proxy, documented_flags
from harness.waiting import wait_for

RULES = """
domain: web
rules:
  - { name: login, match: { path: /login }, key: [ip], limit: 3 per hour }
  - { name: banned, match: { path: /banned }, limit: 0 per hour, action: shadow_ban }
"""
# Envoy's routes say what is a login.
ENVOY_RULES = """
domain: web
rules:
  - { name: login, match: { path: /login }, key: [remote_address], limit: 3 per hour }
"""

# What a client gets while Tidegate is stopped or hangs. Traefik needs 30 s for it if Tidegate hangs.
OPEN, CLOSED = {200}, {500, 502, 504}
AWAY = {"nginx": OPEN, "caddy": CLOSED, "traefik": CLOSED, "haproxy": OPEN, "envoy": OPEN}
# Traefik adds headers of the answer only to the request.
WITHOUT_RATELIMIT = {"traefik"}
# The other policy: what to change in the file, and what a client gets then.
REFUSING = {
    "nginx": ("            error_page 502 504 =204 @tidegate_away;\n", "", 500),
    "haproxy": ("    # http-request deny deny_status 503 if", "    http-request deny deny_status 503 if", 503),
    "envoy": ("failure_mode_deny: false", "failure_mode_deny: true", 500),
}
# How long a proxy may take if Tidegate hangs: 250 ms, or 30 s for Traefik, and time for a busy machine. Without the timeouts
# of the files it would take longer.
HANG_TIMEOUT_S = {"traefik": 45}

# Headers of the request to Tidegate that a client might name in `Connection`.
HOP_BY_HOP = [
    "X-Forwarded-For",
    "X-Forwarded-Uri",
    "X-Forwarded-Method",
    "X-Forwarded-Host",
    "X-Original-URI",
    "X-Original-Method",
    "Host",
]

SPELLINGS = [
    "/login",
    "/login?next=/",
    "//login",
    "///login",
    "/./login",
    "/a/../login",
    "/a/./../login",
    "/%6cogin",
    "/%6C%6F%67%69%6E",
    "/a/%2e%2e/login",
    "/%2e/login",
    "/login/",
    "/login/.",
    "/%2flogin",
    "/a%2f..%2flogin",
    "/a%5c..%5clogin",
    "/login%00",
    "http://other.example/login",
]

# Envoy itself resolves spellings, and passes these on.
SPELLINGS_NOT_UTF8 = ["/%c1%acogin", "/%e0%81%acogin", "/%f0%80%81%acogin", "/login%ff"]


@pytest.fixture(params=FILES)
def name(request):
    return request.param


@pytest.fixture
def server(root, tidegate, name):
    rules = ENVOY_RULES if name == "envoy" else RULES
    return tidegate(rules, flags=documented_flags(root, name), keeps_ports=True)


@pytest.fixture
def proxy(root, parts, tmp_path, server, upstream, stopping, name):
    """Starts the proxy: proxy(patient=False) for the timeouts of its file."""

    def start(**more):
        running = Proxy(name, root, parts, tmp_path, server, upstream, **more)
        stopping.append(running)
        return running

    return start


def test_limits_reach_the_client(proxy, upstream, name):
    edge = proxy()
    passed = [edge.get("/login") for _ in range(3)]
    assert [status for status, _ in passed] == [200, 200, 200]
    assert len(upstream.seen) == 3
    assert all("retry-after" not in headers for _, headers in passed)
    if name not in WITHOUT_RATELIMIT:
        assert [headers["ratelimit"].split(";")[1] for _, headers in passed] == ["r=2", "r=1", "r=0"]
        assert passed[0][1]["ratelimit-policy"] == '"login/1";q=3;w=3600'
    status, denied = edge.get("/login")
    assert (status, len(upstream.seen)) == (429, 3)
    assert 1 <= int(denied["retry-after"]) <= 1200
    assert denied["ratelimit"].startswith('"login/1";r=0;')
    assert edge.statuses(2, "/") == [200, 200], "another path"


def test_no_spelling_escapes_the_rule(proxy, upstream, name):
    edge = proxy()
    assert edge.statuses(4, "/login") == [200, 200, 200, 429]
    seen = len(upstream.seen)
    for target in SPELLINGS + ([] if name == "envoy" else SPELLINGS_NOT_UTF8):
        status, _ = edge.get(target)
        assert status not in (200, 500) and len(upstream.seen) == seen, target
    assert edge.get("/login-page")[0] == 200, "another path"
    assert edge.get('/a"b?q="c"')[0] in (200, 400), "a quote is not an error of the server"


def test_clients_gain_nothing_by_headers(proxy, upstream):
    edge = proxy()
    assert edge.statuses(4, "/login") == [200, 200, 200, 429]
    forged = [
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.1, 192.0.2.2, 192.0.2.3"),
        ("Forwarded", "for=192.0.2.1"),
        ("X-Real-IP", "192.0.2.1"),
        ("X-Original-URI", "/"),
        ("X-Forwarded-Uri", "/"),
        ("X-Original-Method", "PUT"),
        ("X-Forwarded-Method", "PUT"),
        ("X-Forwarded-Host", "other.example"),
        ("X-Tidegate-Decision", "allowed"),
        ("X-Tidegate-Status", "200"),
        ("Content-Length", "0"),
    ]
    for header in forged:
        assert edge.get("/login", [header])[0] == 429, header
    assert edge.get("/login", forged[:1] * 3)[0] == 429
    # A proxy must not take away its own headers because the client calls them hop-by-hop.
    for header in HOP_BY_HOP:
        hop_by_hop = [("Connection", f"close, {header}"), *([] if header == "Host" else [(header, "192.0.2.1")])]
        assert edge.get("/login", hop_by_hop[:1])[0] in (400, 429), header
        assert edge.get("/login", hop_by_hop)[0] in (400, 429), header
    assert edge.get("/login?deny_status=200")[0] in (400, 429)
    assert len(upstream.seen) == 3


def test_no_request_passes_because_tidegate_cannot_read_it(proxy, upstream):
    edge = proxy()
    assert edge.statuses(4, "/login") == [200, 200, 200, 429]
    # Proxies accept some of these. The HTTP library of Tidegate refuses control characters, and answers before Tidegate could.
    for headers in [
        [("X", "\x01")],
        [("X", "a\x7fb")],
        [("X\x01", "a")],
        [("X", "a" * 15_000)],
        [(f"X-{number}", "a" * 100) for number in range(90)],
    ]:
        status, _ = edge.get("/login", headers)
        assert status not in (200, 500), headers
    assert len(upstream.seen) == 3
    assert edge.get("/")[0] == 200


def test_the_application_learns_the_decision(proxy, upstream, name):
    edge = proxy()
    assert edge.get("/", [("X-Tidegate-Decision", "shadow_banned")])[0] == 200
    assert upstream.seen[-1].get("x-tidegate-decision", "allowed") == "allowed"
    if name != "envoy":
        assert edge.get("/banned")[0] == 200
        assert upstream.seen[-1]["x-tidegate-decision"] == "shadow_banned"


def test_tidegate_stops_and_comes_back(proxy, server, name):
    edge = proxy(patient=False)
    server.process.kill()
    assert {edge.get("/login")[0] for _ in range(5)} <= AWAY[name]
    server.restart()
    # Envoy may have seen that the address refuses connections, and waits before it tries again.
    wait_until_limited(edge)


def test_tidegate_hangs(proxy, server, name):
    edge = proxy(patient=False)
    server.process.suspend()
    try:
        assert edge.get("/login", timeout_s=HANG_TIMEOUT_S.get(name, 10))[0] in AWAY[name]
    finally:
        server.process.resume()
    wait_until_limited(edge)


@pytest.mark.parametrize("name", REFUSING)
def test_the_other_policy(proxy, server, upstream, name):
    old, new, status = REFUSING[name]
    edge = proxy(patient=False, change=(old, new))
    server.process.kill()
    assert {edge.get("/login")[0] for _ in range(5)} == {status}
    assert not upstream.seen
    server.restart()
    wait_until_limited(edge)
    seen = len(upstream.seen)
    server.process.suspend()
    try:
        assert edge.get("/", timeout_s=10)[0] in CLOSED | {status}
    finally:
        server.process.resume()
    assert len(upstream.seen) == seen
    wait_until_limited(edge)


def wait_until_limited(edge):
    """A busy machine may be slower than a timeout, which lets single requests pass or fail."""
    wait_for("limits hold again", lambda: edge.get("/login")[0] == 429)
