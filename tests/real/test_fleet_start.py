"""Problems with the store at startup: the server exits with a clear message and a hint, and does not retry forever.

A store that is only away does not keep a server from starting, unless it is required."""

import os
import socket
import subprocess
import threading

import pytest
from harness.fleet import rule, rules
from harness.tidegate import keep_port
from harness.waiting import DEADLINE_S

PASSWORD = "open-sesame"


@pytest.fixture
def refused(binary, tmp_path):
    """The output of a server that must not start: refused(url, *flags)."""
    path = tmp_path / "rules.yaml"
    path.write_text(rules(rule("any", "1 per hour")))

    def start(url, *flags, env=None):
        listeners = [word for protocol in ("http", "grpc", "resp", "admin") for word in (f"--{protocol}", "127.0.0.1:0")]
        ended = subprocess.run(
            [str(word) for word in (binary, "serve", *listeners, "--rules", path, "--store", url, *flags)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**{name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}, **(env or {})},
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode not in (0, 101), said
        assert "panicked" not in said and PASSWORD not in said, said
        assert "hint" in said or "help" in said, said
        return said

    return start


@pytest.mark.parametrize("scheme", ["redis", "redis-cluster", "redis+ring"])
def test_nobody_is_there(refused, scheme):
    kept = keep_port()
    port = kept.getsockname()[1]
    try:
        assert f"127.0.0.1:{port}" in refused(f"{scheme}://127.0.0.1:{port}", "--store-required")
    finally:
        kept.close()


def test_no_sentinel_is_there(refused):
    kept = keep_port()
    port = kept.getsockname()[1]
    try:
        assert f"127.0.0.1:{port}" in refused(f"redis+sentinel://127.0.0.1:{port}/tide", "--store-required")
    finally:
        kept.close()


def test_sentinels_know_no_master_of_that_name(refused, sentinel_set):
    said = refused(sentinel_set().url.rpartition("/")[0] + "/ebb")
    assert "ebb" in said


def test_no_answer_ends_it_too(refused, redis_server, fault_proxy):
    proxy = fault_proxy(redis_server())
    proxy.stalls()
    assert proxy.address in refused(proxy.url, "--store-required")
    assert proxy.connections <= 3, "no reconnect storm"


def test_connections_that_end_at_once(refused, redis_server, fault_proxy):
    proxy = fault_proxy(redis_server())
    proxy.resets()
    assert proxy.address in refused(proxy.url, "--store-required")
    assert proxy.connections <= 3, "no reconnect storm"


def test_something_else_listens_there(refused):
    """A web server."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def answer():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        assert f"127.0.0.1:{port}" in refused(f"redis://127.0.0.1:{port}", "--store-required")
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(DEADLINE_S)


def connections_to(server):
    """The number of connections so far."""
    with server.client() as client:
        return client.info("stats")["total_connections_received"]


def test_a_password_that_is_wrong_or_missing(refused, redis_server):
    server = redis_server(requirepass=PASSWORD)
    before = connections_to(server)
    said = refused(f"redis://:not-{PASSWORD[::-1]}@{server.address}")
    assert server.address in said and "password" in said.lower()
    assert PASSWORD[::-1] not in said
    said = refused(f"redis://{server.address}")
    assert server.address in said and "password" in said.lower()
    assert connections_to(server) - before <= 8, "no reconnect storm"


def test_a_user_that_may_not(refused, redis_server):
    server = redis_server()
    server.ask("ACL", "SETUSER", "clerk", "on", ">" + PASSWORD, "~*", "+ping", "+info", "+hello", "+client")
    said = refused(f"redis://clerk:{PASSWORD}@{server.address}")
    assert server.address in said and "clerk" in said or "permission" in said.lower(), said


def test_a_redis_that_is_too_old(refused, redis_server):
    server = redis_server("redis-server-5.0")
    said = refused(server.url)
    assert "5.0" in said and "6.2" in said


def test_a_url_of_a_cluster_on_a_single_server(refused, redis_server):
    server = redis_server()
    said = refused(f"redis-cluster://{server.address}")
    assert "redis://" in said, "it names the right scheme"


def test_a_url_of_a_single_server_on_a_cluster(refused, redis_server):
    # One node is enough, because it reports cluster mode.
    server = redis_server(cluster_enabled="yes")
    said = refused(f"redis://{server.address}")
    assert "redis-cluster://" in said, "it names the right scheme"


def test_a_replica_is_no_store(refused, redis_server, redis_replica):
    replica = redis_replica(redis_server())
    said = refused(replica.url)
    assert "replica" in said and replica.address in said


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:6379",
        "http://127.0.0.1:6379",
        "redis://",
        "redis://127.0.0.1:seven",
        "redis://127.0.0.1:6379/minus-one",
        "redis+sentinel://127.0.0.1:26379",
        "redis-cluster://127.0.0.1:6379/3",
        "redis+ring://",
        f"redis//:{PASSWORD}@127.0.0.1",
    ],
)
def test_a_url_that_is_none(refused, url):
    refused(url)


@pytest.mark.parametrize("flags", [("--store-timeout", "0s"), ("--store-timeout", "soon"), ("--store-ca", "/no/such/file")])
def test_settings_that_cannot_be(refused, flags):
    said = refused("rediss://127.0.0.1:1", *flags)
    assert "store" in said


def test_the_url_may_be_in_the_environment(refused, binary, tidegate, redis_server):
    server = redis_server(requirepass=PASSWORD)
    running = tidegate(rules(rule("any", "1 per hour")), env={"TIDEGATE_STORE": server.url})
    assert running.check({"by": "any", "user": "ann"}, domain="api").status_code == 200
    assert running.check({"by": "any", "user": "ann"}, domain="api").status_code == 429
    said = running.process.stdout() + running.process.stderr()
    assert server.address in said and PASSWORD not in said, said
