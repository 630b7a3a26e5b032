"""gRPC with clients that know the service only from reflection: buf, and grpcio with messages built at run time."""

import json

import grpc
import pytest
from google.protobuf import json_format
from harness.asking import SERVICE, Reflected
from harness.waiting import DEADLINE_S

RULES = """
domain: api
rules:
  - name: per-user
    match: { user: { exists: true } }
    key: [user]
    limit: 3 per hour
  - name: per-team
    match: { team: { exists: true } }
    key: [team]
    limits: [ { name: daily, limit: 10 per day } ]
"""


@pytest.fixture
def server(tidegate):
    return tidegate(RULES)


@pytest.fixture
def buf(server, run, parts):
    """Calls a method with buf: buf(method, body). Returns its output as JSON."""

    def call(method, body, **more):
        command = [parts / "venv/bin/buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge"]
        ended = run(*command, "-d", json.dumps(body), f"http://{server.grpc}/{method}", **more)
        return json.loads(ended.stdout) if ended.returncode == 0 else ended

    return call


def test_buf_by_reflection(buf):
    body = {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "buf"}]}]}
    codes = [buf(f"{SERVICE}/ShouldRateLimit", body)["overallCode"] for _ in range(4)]
    assert codes == ["OK", "OK", "OK", "OVER_LIMIT"]


def test_buf_lists_what_is_there(server, run, parts):
    ended = run(
        *(parts / "venv/bin/buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--list-services"),
        f"http://{server.grpc}",
    )
    assert {SERVICE, "grpc.health.v1.Health"} <= set(ended.stdout.split())


def test_buf_asks_for_health(buf):
    assert buf("grpc.health.v1.Health/Check", {}) == {"status": "SERVING"}
    assert buf("grpc.health.v1.Health/Check", {"service": SERVICE}) == {"status": "SERVING"}
    unknown = buf("grpc.health.v1.Health/Check", {"service": "no.such.Service"}, code=None)
    assert "not_found" in unknown.stderr


def test_a_status_for_each_descriptor_in_order(server, rls):
    client = rls(server)
    reply = client.ask("api", {"user": "ann"}, {"nobody": "limits"}, {"team": "red"})
    shown = json_format.MessageToDict(reply)
    user, nobody, team = shown["statuses"]
    assert user["code"] == "OK"
    assert user["currentLimit"] == {"name": "per-user", "requestsPerUnit": 3, "unit": "HOUR"}
    assert user["limitRemaining"] == 2
    assert user["durationUntilReset"] == "1200s"
    assert nobody == {"code": "OK"}
    assert team["currentLimit"] == {"name": "daily", "requestsPerUnit": 10, "unit": "DAY"}
    assert team["limitRemaining"] == 9
    assert shown["overallCode"] == "OK"


def test_all_or_nothing_over_descriptors(server, rls):
    client = rls(server)
    for _ in range(5):
        last = client.ask("api", {"user": "ann"}, {"team": "red"})
    shown = json_format.MessageToDict(last)
    assert shown["overallCode"] == "OVER_LIMIT"
    assert [status["code"] for status in shown["statuses"]] == ["OVER_LIMIT", "OK"]
    assert shown["statuses"][1]["limitRemaining"] == 7, "the two denied requests charged the team nothing"


def test_hits(server, rls):
    client = rls(server)
    ann = {"entries": [{"key": "team", "value": "blue"}]}

    def remaining(descriptor, **more):
        reply = client.ask("api", descriptor, **more)
        return reply.overall_code, reply.statuses[0].limit_remaining

    assert remaining(ann) == (1, 9)
    assert remaining(ann, hits_addend=0) == (1, 8), "an addend of 0 in the request means 1"
    assert remaining(ann, hits_addend=3) == (1, 5)
    assert remaining({**ann, "hits_addend": 0}, hits_addend=3) == (1, 5), "an addend of 0 in the descriptor means 0"
    assert remaining({**ann, "hits_addend": 2}, hits_addend=3) == (1, 3)
    assert remaining({**ann, "hits_addend": 4}) == (2, 3)


def test_a_limit_that_the_descriptor_brings(server, rls):
    client = rls(server)
    own = {"entries": [{"key": "user", "value": "own"}], "limit": {"requests_per_unit": 1, "unit": "YEAR"}}
    reply = client.ask("api", own)
    assert json_format.MessageToDict(reply)["statuses"][0]["currentLimit"] == {"requestsPerUnit": 1, "unit": "YEAR"}
    assert client.ask("api", own).overall_code == 2

    own["limit"]["unit"] = 0
    with pytest.raises(grpc.RpcError) as refused:
        client.ask("api", own)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert client.ask("api", {"user": "own"}).overall_code == 1, "the server still works"


def test_what_lacks_a_domain_or_descriptors_is_refused(server, rls):
    client = rls(server)
    for body in ({"domain": "", "descriptors": [{"entries": [{"key": "a", "value": "b"}]}]}, {"domain": "api"}):
        with pytest.raises(grpc.RpcError) as refused:
            client.should_rate_limit(body)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details()


def test_unknown_methods_and_services(server, closing):
    channel = closing(Reflected(server.grpc)).channel
    for method in (f"/{SERVICE}/No", "/no.such.Service/Method"):
        with pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary(method)(b"", timeout=DEADLINE_S)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_many_calls_at_once_on_one_connection(server, closing):
    reflected = closing(Reflected(server.grpc))
    request = reflected.message("envoy.service.ratelimit.v3.RateLimitRequest")
    reply = reflected.message("envoy.service.ratelimit.v3.RateLimitResponse")
    call = reflected.channel.unary_unary(
        f"/{SERVICE}/ShouldRateLimit",
        request_serializer=request.SerializeToString,
        response_deserializer=reply.FromString,
    )
    body = json_format.ParseDict(
        {"domain": "api", "descriptors": [{"entries": [{"key": "team", "value": "many"}]}]}, request()
    )
    calls = [call.future(body, timeout=DEADLINE_S) for _ in range(500)]
    codes = [each.result().overall_code for each in calls]
    assert sorted(codes) == [1] * 10 + [2] * 490
