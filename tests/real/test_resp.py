"""Unmodified Redis clients: redis-cli, redis-benchmark, redis-py, ioredis, go-redis."""

import json
import threading

import pytest
import redis
from harness.asking import redis_client
from harness.waiting import DEADLINE_S, wait_for
from redis.backoff import NoBackoff
from redis.retry import Retry

RULES = """
domain: clients
rules:
  - name: per-user
    match: { user: { exists: true } }
    key: [user]
    limit: { limit: 5, per: 1d, algorithm: fixed_window, align: first_hit }
  - name: bench
    match: { bench: { exists: true } }
    key: [bench]
    limit: { limit: 100, per: 1d, algorithm: fixed_window, align: first_hit }
"""
LEASE_RULES = RULES + """
  - name: one-report
    match: { report: { exists: true } }
    key: [report]
    limits: [ { algorithm: concurrency, limit: 1, ttl: 5m } ]
"""
DAY_MS = 24 * 3_600_000


@pytest.fixture
def server(tidegate):
    return tidegate(RULES)


@pytest.fixture
def redis_cli(server, run):
    """Runs redis-cli and returns the lines of its output."""

    def cli(*words, **more):
        return run("redis-cli", "-p", server.resp_port, *words, **more).stdout.splitlines()

    return cli


def test_redis_cli(redis_cli):
    assert redis_cli("PING") == ["PONG"]
    assert redis_cli("PING", "hello") == ["hello"]
    assert redis_cli("ECHO", "two words") == ["two words"]
    # limited, limit, remaining, retry after, reset after. One unit comes back every 20 minutes.
    limited, limit, remaining, retry, reset = map(int, redis_cli("CL.THROTTLE", "cli", 2, 3, 3600))
    assert (limited, limit, remaining, retry) == (0, 3, 2, -1)
    assert reset == 1200
    redis_cli("CL.THROTTLE", "cli", 2, 3, 3600)
    assert redis_cli("CL.THROTTLE", "cli", 2, 3, 3600)[0] == "0"
    limited, limit, remaining, retry, reset = map(int, redis_cli("CL.THROTTLE", "cli", 2, 3, 3600))
    assert (limited, limit, remaining) == (1, 3, 0)
    assert 0 < retry <= 1200 and retry + 2400 == reset
    assert redis_cli("CL.THROTTLE", "cli", 2, 3, 3600, 0)[0] in ("0", "1"), "a quantity of 0 only asks"


def test_redis_cli_checks_by_rules(redis_cli):
    answers = [redis_cli("TIDEGATE.CHECK", "clients", "user", "cli") for _ in range(6)]
    assert [answer[0] for answer in answers] == ["allowed"] * 5 + ["denied"]
    assert [answer[1] for answer in answers] == ["4", "3", "2", "1", "0", "0"]
    decision, remaining, retry_ms, reset_ms, delay_ms, rule = answers[-1]
    assert 0 < int(retry_ms) <= DAY_MS and int(retry_ms) <= int(reset_ms) <= DAY_MS
    assert (delay_ms, rule) == ("0", "per-user")
    assert redis_cli("TIDEGATE.CHECK", "clients", "user", "other", "COST", 5)[:2] == ["allowed", "0"]
    assert redis_cli("TIDEGATE.CHECK", "clients", "nobody", "asks")[:2] == ["allowed", "-1"]


def test_redis_cli_speaks_resp3(redis_cli):
    said = redis_cli("-3", "HELLO", "3")
    assert any("proto" in line for line in said), said
    assert redis_cli("-3", "TIDEGATE.CHECK", "clients", "user", "three")[0] == "allowed"
    assert redis_cli("-3", "CL.THROTTLE", "three", 2, 3, 3600)[0] == "0"


def test_redis_cli_in_one_go(redis_cli):
    commands = "".join(f"CL.THROTTLE piped{n % 2} 9 10 3600\n" for n in range(1000))
    said = redis_cli("--pipe", input=commands)
    assert said[-1] == "errors: 0, replies: 1000", said


def test_redis_cli_is_told_what_is_not_there(redis_cli):
    assert redis_cli("GET", "x")[0].startswith("ERR unknown command")
    assert "Usage: cl.throttle" in redis_cli("CL.THROTTLE", "k", 1)[0]
    assert redis_cli("PING") == ["PONG"]


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_benchmark(server, run, pipeline):
    total = 3_200
    ended = run(
        *("redis-benchmark", "-p", server.resp_port, "-n", total, "-c", 8, "-P", pipeline, "--csv", "-e"),
        *("TIDEGATE.CHECK", "clients", "bench", f"at-{pipeline}"),
    )
    assert "rror" not in ended.stdout, ended.stdout

    def decisions(decision):
        return server.metric("tidegate_decisions_total", protocol="resp", decision=decision)

    # A decision may be counted shortly after its answer.
    wait_for("all are counted", lambda: decisions("allowed") + decisions("denied") == total)
    assert (decisions("allowed"), decisions("denied")) == (100, total - 100)


def test_redis_benchmark_of_the_other_commands(server, run):
    for command in (["PING"], ["CL.THROTTLE", "bench", "15", "30", "60"]):
        ended = run("redis-benchmark", "-p", server.resp_port, "-n", 2000, "-c", 8, "-P", 16, "--csv", "-e", *command)
        assert "rror" not in ended.stdout, ended.stdout
    # redis-benchmark's own two kinds of PING, one of them inline.
    ended = run("redis-benchmark", "-p", server.resp_port, "-n", 1000, "-c", 4, "-t", "ping", "--csv", "-e")
    assert "PING_INLINE" in ended.stdout and "PING_MBULK" in ended.stdout
    assert "rror" not in ended.stdout, ended.stdout


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py(server, protocol):
    with redis_client(port=server.resp_port, protocol=protocol, decode_responses=True) as client:
        assert client.ping() is True
        assert client.echo("x") == "x"
        user = f"py-{protocol}"
        answer = client.execute_command("TIDEGATE.CHECK", "clients", "user", user)
        assert answer[0] == "allowed" and int(answer[1]) == 4 and answer[5] == "per-user"
        with pytest.raises(redis.ResponseError, match="unknown command"):
            client.get("x")

        with client.pipeline(transaction=False) as pipeline:
            for _ in range(6):
                pipeline.execute_command("TIDEGATE.CHECK", "clients", "user", user)
            pipeline.execute_command("CL.THROTTLE", user, 0, 1, 3600)
            pipeline.execute_command("NOT.A.COMMAND")
            pipeline.execute_command("CL.THROTTLE", user, 0, 1, 3600)
            replies = pipeline.execute(raise_on_error=False)
        assert [reply[0] for reply in replies[:6]] == ["allowed"] * 4 + ["denied"] * 2
        assert replies[6][:2] == [0, 1] and replies[8][:2] == [1, 1], "replies are in order, with an error between them"
        assert isinstance(replies[7], redis.ResponseError)


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_in_a_transaction(server, protocol):
    """The default pipeline of redis-py sends MULTI and EXEC."""
    with redis_client(port=server.resp_port, protocol=protocol, decode_responses=True) as client:
        user = f"multi-{protocol}"

        def check(pipeline, times):
            for _ in range(times):
                pipeline.execute_command("TIDEGATE.CHECK", "clients", "user", user)
            return pipeline

        def remaining():
            return int(client.execute_command("TIDEGATE.PEEK", "clients", "user", user, "COST", 0)[1])

        with client.pipeline() as pipeline:
            check(pipeline, 4).ping()
            replies = pipeline.execute()
        assert [reply[0] for reply in replies[:4]] == ["allowed"] * 4 and replies[4] is True
        assert remaining() == 1
        with client.pipeline() as pipeline, pytest.raises(redis.ResponseError, match="unknown command"):
            check(pipeline, 1).get("x").execute()
        assert remaining() == 1, "an aborted transaction charges nothing"
        with client.pipeline() as pipeline, pytest.raises(redis.ResponseError, match="WATCH is not supported"):
            pipeline.watch("x")
        with client.pipeline() as pipeline:
            assert [reply[0] for reply in check(pipeline, 2).execute()] == ["allowed", "denied"]


def test_leases_and_refunds(tidegate):
    server = tidegate(LEASE_RULES, env={"TIDEGATE_ADMIN_TOKEN": "an admin token for tests"})
    with redis_client(port=server.resp_port, decode_responses=True) as client:
        request = ("clients", "report", "weekly")
        decision, *_, token, fence, expires_in_ms = client.execute_command("TIDEGATE.ACQUIRE", *request, "TTL", "30s")
        assert decision == "allowed" and 0 < int(expires_in_ms) <= 30_000
        assert client.execute_command("TIDEGATE.ACQUIRE", *request)[0] == "denied"
        renewed = client.execute_command("TIDEGATE.RENEW", token, *request)
        assert renewed[0] == "renewed" and renewed[2] == fence and 0 < int(renewed[3]) <= 30_000, "its own ttl is kept"
        assert client.execute_command("TIDEGATE.RELEASE", token, *request) == "released"
        assert client.execute_command("TIDEGATE.ACQUIRE", *request)[0] == "allowed"
        with pytest.raises(redis.exceptions.NoPermissionError, match="AUTH admin TOKEN"):
            client.execute_command("TIDEGATE.REFUND", "clients", "user", "a")
    with redis_client(port=server.resp_port, username="admin", password="an admin token for tests") as operator:
        assert operator.execute_command("TIDEGATE.CHECK", "clients", "user", "a")[1] == 4
        assert operator.execute_command("TIDEGATE.REFUND", "clients", "user", "a") == [b"refunded", 1, 0]
        assert operator.execute_command("TIDEGATE.CHECK", "clients", "user", "a")[1] == 4


def test_redis_py_from_a_pool_by_many_threads(server):
    pool = redis.ConnectionPool(
        port=server.resp_port,
        max_connections=8,
        decode_responses=True,
        socket_timeout=DEADLINE_S,
        socket_connect_timeout=DEADLINE_S,
        retry=Retry(NoBackoff(), 0),
    )
    pool_client, seen = redis.Redis(connection_pool=pool), []

    def ask():
        for _ in range(20):
            seen.append(pool_client.execute_command("TIDEGATE.CHECK", "clients", "bench", "pool")[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.disconnect()
    assert sorted(seen) == ["allowed"] * 100 + ["denied"] * 60


def test_passwords(tidegate, run):
    server = tidegate(RULES, env={"TIDEGATE_RESP_PASSWORD": "open sesame"})
    port = server.resp_port

    def client(**more):
        return redis_client(port=port, **more)

    for protocol in (2, 3):
        with client(password="open sesame", protocol=protocol) as known:
            assert known.ping() is True
        with client(username="default", password="open sesame", protocol=protocol) as known:
            assert known.ping() is True
        with client(password="wrong", protocol=protocol) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with client(protocol=protocol) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.execute_command("CL.THROTTLE", "k", 1, 1, 60)
    said = run("redis-cli", "-p", port, "-a", "open sesame", "--no-auth-warning", "PING").stdout
    assert said == "PONG\n"


def shown_by(run, *command):
    return json.loads(run(*command).stdout)


def assert_is_as_expected(shown):
    """The expected replies for the programs in clients/: burst 2, 3 per hour; five checks per day."""
    assert shown["ping"] == "PONG"
    assert shown["throttle"][:4] == [0, 3, 2, -1]
    assert [reply[0] for reply in shown["pipeline"]] == [0, 0, 1, 1]
    assert [reply[2] for reply in shown["pipeline"]] == [1, 0, 0, 0]
    assert [reply[:3] for reply in shown["multi"]] == [[0, 2, 1], [0, 2, 0], [1, 2, 0]]
    assert shown["check"][0] == "allowed" and int(shown["check"][1]) == 4
    assert sorted(reply[0] for reply in shown["together"]) == ["allowed"] * 4 + ["denied"] * 6
    assert "unknown command" in shown["unknown"]


def test_ioredis(server, run, parts):
    shown = shown_by(run, parts / "bin/node", parts / "ioredis/client.js", server.resp_port)
    assert_is_as_expected(shown)
    assert shown["quit"] == "OK"


def test_ioredis_with_a_password(tidegate, run, parts):
    server = tidegate(RULES, env={"TIDEGATE_RESP_PASSWORD": "secret"})
    assert_is_as_expected(
        shown_by(run, parts / "bin/node", parts / "ioredis/client.js", server.resp_port, "secret")
    )


@pytest.mark.parametrize("protocol", [2, 3])
def test_go_redis(server, run, parts, protocol):
    assert_is_as_expected(shown_by(run, parts / "bin/go-redis-client", server.resp_port, protocol))


@pytest.mark.parametrize("protocol", [2, 3])
def test_go_redis_with_a_password(tidegate, run, parts, protocol):
    server = tidegate(RULES, env={"TIDEGATE_RESP_PASSWORD": "secret"})
    assert_is_as_expected(shown_by(run, parts / "bin/go-redis-client", server.resp_port, protocol, "secret"))
