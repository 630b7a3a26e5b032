"""What nobody should send: over each protocol a clear answer, and the server goes on."""

import json
import socket

import grpc
import pytest
import redis
import requests
from harness.asking import SERVICE, Reflected, redis_client
from harness.waiting import DEADLINE_S

RULES = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 5 per hour }
  - { name: none, match: { banned: { exists: true } }, limit: { limit: 0, per: 1h, algorithm: fixed_window } }
  - { name: huge, match: { huge: { exists: true } }, key: [huge], limit: { limit: 1099511627775, per: 1ms } }
"""
MEGABYTE = 1 << 20


@pytest.fixture
def server(tidegate):
    """A server that has to be alive at the end."""
    running = tidegate(RULES)
    yield running
    running.process.must_run()
    assert running.check({"user": "still there?"}, domain="api").status_code == 200
    assert "panicked" not in running.process.stderr()


def post(server, body, path="/v1/check", **more):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requests.post(server.url + path, data=data, timeout=DEADLINE_S, **more)


def assert_is_a_problem(response, status, *words):
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/problem+json")
    problem = response.json()
    assert problem["status"] == status and problem["title"]
    for word in words:
        assert word in response.text, response.text


USER = {"domain": "api", "attributes": {"user": "ann"}}


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({**USER, "colour": "red"}, "colour"),
        ({**USER, "cost": -1}, "cost"),
        ({**USER, "cost": 1.5}, "cost"),
        ({**USER, "cost": "many"}, "cost"),
        ({**USER, "cost": 1 << 64}, "cost"),
        ({"attributes": {"user": "ann"}}, "domain"),
        ({"domain": "", "attributes": {"user": "ann"}}, "domain"),
        ({"domain": "api"}, "attributes"),
        ({"domain": "api", "attributes": {"user": 5}}, "attribute"),
        ({"domain": "api", "descriptors": [{"entries": [{"key": "user"}]}]}, "value"),
        ([], ""),
        (b"", ""),
        (b"{", ""),
        (b'{"domain": "api", "attributes": {"user": "\xff\xfe"}}', ""),
        (b'{"domain": "api", "attributes": {"user": "\\ud800"}}', ""),
        (b"[" * 100_000, ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_http_says_what_is_wrong(server, body, word):
    assert_is_a_problem(post(server, body), 400, word)


def test_http_a_key_of_a_megabyte(server):
    response = post(server, {"domain": "api", "attributes": {"user": "x" * MEGABYTE}})
    assert response.status_code in (400, 413), response.text[:500]
    assert_is_a_problem(response, response.status_code)


def test_http_other_paths_methods_and_types(server):
    assert_is_a_problem(requests.get(server.url + "/v1/nothing", timeout=DEADLINE_S), 404)
    response = requests.get(server.url + "/v1/check", timeout=DEADLINE_S)
    assert_is_a_problem(response, 405)
    assert "POST" in response.headers["allow"]


@pytest.mark.parametrize("over", ["http", "resp", "grpc"])
def test_a_cost_larger_than_the_limit_can_hold_is_denied_and_charges_nothing(server, clients, over):
    client = next(client for client in clients(server) if client.protocol == over)
    user = {"user": f"greedy-{over}"}
    assert client.check("api", user, cost=6) == "denied"
    assert client.check("api", user, cost=1_000_000_000) == "denied"
    assert client.check("api", user, cost=5) == "allowed"


@pytest.mark.parametrize("over", ["http", "resp", "grpc"])
def test_a_limit_of_0_always_denies(server, clients, over):
    client = next(client for client in clients(server) if client.protocol == over)
    assert [client.check("api", {"banned": "x"}) for _ in range(3)] == ["denied"] * 3


def test_a_limit_of_0_has_no_time_to_come_back(server, rls):
    response = server.check({"banned": "x"}, domain="api")
    assert response.status_code == 429 and "retry-after" not in response.headers
    with redis_client(port=server.resp_port, decode_responses=True) as client:
        reply = client.execute_command("TIDEGATE.CHECK", "api", "banned", "x")
        assert (reply[0], int(reply[2])) == ("denied", -1)
    status = rls(server).ask("api", {"banned": "x"}).statuses[0]
    assert not status.HasField("duration_until_reset")


@pytest.mark.parametrize("over", ["http", "resp", "grpc"])
def test_an_enormous_rate_is_a_rate(server, clients, over):
    client = next(client for client in clients(server) if client.protocol == over)
    key = {"huge": over}
    assert client.check("api", key) == "allowed"
    if over != "grpc":  # An addend has 32 bits or so there.
        assert client.check("api", key, cost=(1 << 41)) == "denied", "it is not silently unlimited"


@pytest.fixture
def raw(server):
    """Sends bytes to the RESP port, and hands over all that comes back until the server closes or is quiet."""

    def send(data, until=None):
        with socket.create_connection(("127.0.0.1", server.resp_port), timeout=DEADLINE_S) as connection:
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # The server has seen enough.
            said = b""
            while until is None or until not in said:
                try:
                    part = connection.recv(1 << 16)
                except ConnectionResetError:
                    break
                if not part:
                    break
                said += part
            return said

    return send


def test_resp_says_what_is_wrong(server):
    with redis_client(port=server.resp_port, decode_responses=True) as client:
        for words in (
            ["TIDEGATE.CHECK"],
            ["TIDEGATE.CHECK", "api"],
            ["TIDEGATE.CHECK", "api", "user"],
            ["TIDEGATE.CHECK", "", "user", "ann"],
            ["TIDEGATE.CHECK", "api", "user", "ann", "COST"],
            ["TIDEGATE.CHECK", "api", "user", "ann", "COST", "-1"],
            ["TIDEGATE.CHECK", "api", "user", "ann", "COST", "1.5"],
            ["TIDEGATE.CHECK", "api", "user", "ann", "COST", "99999999999999999999999"],
            ["TIDEGATE.CHECK", "api", "user", b"\xff\xfe"],
            ["CL.THROTTLE", "k", "-1", "1", "60"],
            ["CL.THROTTLE", "k", "1", "0", "60"],
            ["CL.THROTTLE", "k", "1", "1", "0"],
            ["CL.THROTTLE", "k", "1", "-1", "60"],
            ["CL.THROTTLE", "k", "1", "1", "60", "-1"],
            ["CL.THROTTLE", "k", "x", "1", "60"],
            ["CL.THROTTLE", "k", "1", "1", "60", "1", "1"],
            ["CL.THROTTLE", "k", "9223372036854775807", "1", "60"],
            ["FLUSHALL"],
        ):
            with pytest.raises(redis.ResponseError) as refused:
                client.execute_command(*words)
            assert len(str(refused.value)) > 10, words
            assert client.ping() is True, "the connection goes on"


def test_resp_an_enormous_rate(server):
    with redis_client(port=server.resp_port) as client:
        limited, limit, *_ = client.execute_command("CL.THROTTLE", "big", 99, 1_000_000_000, 1)
        assert (limited, limit) == (0, 100)
        # More than can ever be held at once: denied, and charged nothing.
        assert client.execute_command("CL.THROTTLE", "big", 99, 1, 3600, 101)[0] == 1
        assert client.execute_command("CL.THROTTLE", "big", 99, 1, 3600, 0)[0] == 0


def test_resp_a_key_of_a_megabyte(server):
    with redis_client(port=server.resp_port) as client:
        for words in (["CL.THROTTLE", "x" * MEGABYTE, 1, 1, 60], ["TIDEGATE.CHECK", "api", "user", "x" * MEGABYTE]):
            with pytest.raises((redis.ResponseError, redis.ConnectionError)):
                client.execute_command(*words)


@pytest.mark.parametrize(
    "data",
    [
        b"*1000000000\r\n",
        b"*2\r\n$1000000000\r\n",
        b"*1\r\n$-5\r\n",
        b"*x\r\n",
        b"*1\r\n:5\r\n",
        b"A" * (2 * MEGABYTE),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nHost: x\r\n\r\nCL.THROTTLE k 1 1 60\r\n",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_resp_what_is_no_command_is_refused_and_the_connection_closed(raw, data):
    said = raw(data)
    assert said == b"" or said.startswith(b"-ERR"), said
    assert b"\r\n*5\r\n" not in said, "nothing behind it is run"


def test_resp_inline_commands(raw):
    assert raw(b"PING\r\n", until=b"\r\n") == b"+PONG\r\n"
    assert raw(b"CL.THROTTLE inline 1 1 60\r\n", until=b":60\r\n").startswith(b"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n")


def test_grpc_says_what_is_wrong(server, closing, rls):
    reflected = closing(Reflected(server.grpc))
    call = reflected.channel.unary_unary(f"/{SERVICE}/ShouldRateLimit")
    for body in (b"\xff\xff\xff\xff", b"\x0a\x7fapi", b"\x0a\x02\xff\xfe\x12\x00"):
        with pytest.raises(grpc.RpcError) as refused:
            call(body, timeout=DEADLINE_S)
        assert refused.value.code() in (
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.INTERNAL,
        ), refused.value
        assert refused.value.details()
    client = rls(server)
    with pytest.raises(grpc.RpcError) as refused:
        client.ask("api", {"user": "x" * MEGABYTE})
    assert refused.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    for unit in (0, 99):
        own = {"entries": [{"key": "user", "value": "u"}], "limit": {"requests_per_unit": 5, "unit": unit}}
        with pytest.raises(grpc.RpcError) as refused:
            client.ask("api", own)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_grpc_what_is_no_http2(server):
    with socket.create_connection(("127.0.0.1", server.port("grpc")), timeout=DEADLINE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            while connection.recv(1 << 16):
                pass  # Until it is closed.
        except ConnectionResetError:
            pass


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ("domain: api\nrules:\n  - { name: a, limit: 5 per hour, colour: red }\n", "colour"),
        ("domain: api\nrules:\n  - { name: a, limit: -5 per hour }\n", "-5"),
        ("domain: api\nrules:\n  - { name: a, limit: 5 per fortnite }\n", "fortnite"),
        ("domain: api\nrules:\n  - { name: a, limit: 99999999999999999999 per second }\n", "limit"),
    ],
)
def test_rules_that_cannot_be_used_keep_the_server_from_starting(binary, run, tmp_path, rules, word):
    path = tmp_path / "rules.yaml"
    path.write_text(rules)
    flags = [part for name in ("http", "grpc", "resp", "admin") for part in (f"--{name}", "127.0.0.1:0")]
    ended = run(binary, "serve", "--rules", path, *flags, code=None)
    assert ended.returncode not in (0, None)
    said = ended.stderr + ended.stdout
    assert "rules.yaml:3:" in said and word in said, said


@pytest.mark.parametrize(
    "settings",
    [["--http", "nonsense"], ["--drain-timeout", "soon"], ["--admin", "0.0.0.0:0"], ["--nonsense"]],
    ids=" ".join,
)
def test_settings_that_cannot_be_used_keep_it_from_starting(binary, run, settings):
    ended = run(binary, "serve", *settings, code=None)
    assert ended.returncode not in (0, None)
    assert settings[0].lstrip("-") in ended.stderr, ended.stderr
