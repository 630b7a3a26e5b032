"""Stopping under load, and what is remembered after."""

import http.client
import json
import signal
import threading
import time

import grpc
import pytest
import redis
import requests
from harness.asking import OverGrpc, OverResp
from harness.waiting import wait_for

RULES = """
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 1000000, per: 1d, algorithm: fixed_window, align: first_hit }
"""
BODY = json.dumps({"domain": "api", "attributes": {"user": "ann"}})


def used(server):
    return server.stands({"user": "ann"}, domain="api")[1]


class Load:
    """Clients of every protocol that ask until the server is gone, and count what was answered.

    A connection that the server closes between two requests is no failure; half an answer is one. Whether a request
    that was decided was not answered, the counters tell after the restart.
    """

    def __init__(self, server):
        self.server, self.answered, self.failures = server, {"http": 0, "resp": 0, "grpc": 0}, []
        self.lock = threading.Lock()
        work = (self.over_http, self.over_http, self.over_resp, self.over_resp, self.over_grpc, self.over_grpc)
        self.threads = [threading.Thread(target=self.kept, args=(each,)) for each in work]
        for thread in self.threads:
            thread.start()

    def kept(self, work):
        try:
            work()
        except Exception as failure:
            self.failures.append(f"{work.__name__}: {failure!r}")

    def count(self, protocol):
        with self.lock:
            self.answered[protocol] += 1

    def over_http(self):
        while True:
            connection = http.client.HTTPConnection(self.server.addresses["http"], timeout=30)
            try:
                while True:
                    connection.request("POST", "/v1/check", BODY, {"content-type": "application/json"})
                    response = connection.getresponse()
                    answer = json.loads(response.read())
                    assert (response.status, answer["decision"]) == (200, "allowed"), answer
                    self.count("http")
                    if response.will_close:
                        break
            except ConnectionRefusedError:
                return
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                continue  # Between two requests: not a byte of an answer has come.
            finally:
                connection.close()

    def over_resp(self):
        while True:
            client = OverResp(self.server)
            try:
                while True:
                    assert client.check("api", {"user": "ann"}) == "allowed"
                    self.count("resp")
            except redis.ConnectionError as failure:
                if "refused" in str(failure):
                    return
            finally:
                client.close()

    def over_grpc(self):
        client = OverGrpc(self.server)
        try:
            while True:
                assert client.check("api", {"user": "ann"}) == "allowed"
                self.count("grpc")
        except grpc.RpcError as failure:
            # The client connects again by itself, to nobody.
            if failure.code() != grpc.StatusCode.UNAVAILABLE:
                raise
        finally:
            client.close()

    def is_on(self, count):
        return self.failures or all(answered >= count for answered in self.answered.values())

    def join(self):
        for thread in self.threads:
            thread.join()
        assert not self.failures
        return sum(self.answered.values())


def test_sigterm_under_load_loses_no_request_and_no_counter(tidegate, tmp_path):
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data"])
    for _ in range(2):
        before = used(server)
        load = Load(server)
        wait_for("there is load on every protocol", lambda load=load: load.is_on(100))
        server.process.signal(signal.SIGTERM)
        assert server.process.wait() == 0, server.process.stderr()
        answered = load.join()
        server.restart()
        assert used(server) - before == answered, "what was decided was answered, and what was answered is remembered"


def test_a_request_that_is_held_is_answered_before_the_end(tidegate):
    rules = """
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 1s, burst: 1 }
    action: { delay: { max_wait: 10s } }
"""
    server = tidegate(rules)
    assert server.check({"user": "ann"}, domain="api").status_code == 200
    answers = []
    held = threading.Thread(target=lambda: answers.append(server.check({"user": "ann"}, domain="api")))
    held.start()
    wait_for("the request waits", lambda: server.metric("tidegate_held_requests") == 1)
    server.process.signal(signal.SIGTERM)
    assert server.process.wait() == 0
    held.join()
    assert answers[0].status_code == 200
    assert answers[0].json()["waited_ms"] > 0


def test_it_is_not_ready_while_it_drains(tidegate):
    rules = """
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 2s, burst: 1 }
    action: { delay: { max_wait: 10s } }
"""
    server = tidegate(rules)
    # This connection is open before, and is asked while the other request is held.
    ready = http.client.HTTPConnection(server.addresses["admin"], timeout=30)
    ready.request("GET", "/readyz")
    assert ready.getresponse().read() is not None
    server.check({"user": "ann"}, domain="api")
    held = threading.Thread(target=server.check, args=({"user": "ann"},), kwargs={"domain": "api"})
    held.start()
    wait_for("the request waits", lambda: server.metric("tidegate_held_requests") == 1)
    server.process.signal(signal.SIGTERM)

    def is_not_ready():
        try:
            return requests.get(server.admin + "/readyz", timeout=5).status_code == 503
        except requests.ConnectionError:
            return True  # Nobody is let in any more, which a load balancer understands too.

    wait_for("it is not ready", is_not_ready)
    assert server.process.wait() == 0
    held.join()
    ready.close()


def test_idle_connections_do_not_hold_it_up(tidegate):
    server = tidegate(RULES)
    idle = [OverResp(server), OverGrpc(server)]
    session = requests.Session()
    session.post(server.url + "/v1/check", data=BODY, timeout=30)
    for client in idle:
        client.check("api", {"user": "ann"})
    began = time.monotonic()
    server.process.signal(signal.SIGTERM)
    assert server.process.wait() == 0
    # The time that requests under way are given is 5 s. There are none.
    assert time.monotonic() - began < 4.5
    for client in idle:
        client.close()
    session.close()


def test_a_client_that_never_finishes_is_not_waited_for_forever(tidegate):
    server = tidegate(RULES, flags=["--drain-timeout", "500ms"])
    slow = http.client.HTTPConnection(server.addresses["http"], timeout=30)
    slow.putrequest("POST", "/v1/check")
    slow.putheader("content-length", "1000")
    slow.endheaders()
    slow.send(b"{")
    wait_for("the connection is there", lambda: server.metric("tidegate_connections", protocol="http") >= 1)
    server.process.signal(signal.SIGTERM)
    assert server.process.wait() == 0
    slow.close()


def test_sigkill_loses_at_most_what_came_after_the_last_snapshot(tidegate, tmp_path):
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data", "--snapshot-every", "1s"])
    for _ in range(50):
        server.check({"user": "ann"}, domain="api")
    # One may be under way that began before; the second has all of them.
    had = written(server)
    wait_for("two more snapshots", lambda: written(server) >= had + 2)
    for _ in range(7):
        server.check({"user": "ann"}, domain="api")
    server.process.kill()
    server.restart()
    assert 50 <= used(server) <= 57


def written(server):
    return server.metric("tidegate_snapshots_total", result="written")


@pytest.mark.parametrize("protocol", ["http", "grpc", "resp", "admin"])
def test_an_address_that_is_taken_is_said(tidegate, binary, run, protocol):
    server = tidegate(RULES)
    flags = [part for name in ("http", "grpc", "resp", "admin") for part in (f"--{name}", "127.0.0.1:0")]
    flags[flags.index(f"--{protocol}") + 1] = server.addresses[protocol]
    ended = run(binary, "serve", *flags, code=None)
    assert ended.returncode not in (0, None)
    assert server.addresses[protocol] in ended.stderr, ended.stderr
