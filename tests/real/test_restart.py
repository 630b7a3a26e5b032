"""Stopping under load, and what is remembered after."""

import http.client
import json
import signal
import socket
import threading

import grpc
import pytest
import redis
import requests
from harness.asking import OverGrpc, OverResp
from harness.waiting import DEADLINE_S, wait_for

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
            connection = http.client.HTTPConnection(self.server.addresses["http"], timeout=DEADLINE_S)
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
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data", "--drain-timeout", "1h"], keeps_ports=True)
    for _ in range(2):
        before = used(server)
        load = Load(server)
        wait_for("there is load on every protocol", lambda load=load: load.is_on(100))
        server.process.signal(signal.SIGTERM)
        assert server.process.wait() == 0, server.process.stderr()
        answered = load.join()
        server.restart()
        assert used(server) - before == answered, "what was decided was answered, and what was answered is remembered"


# A request of a user whose first has passed waits for half an hour, or until an operator resets the user.
HELD = """
domain: api
rules:
  - name: held
    key: [user]
    limit: { limit: 1, per: 30m, burst: 1 }
    action: { delay: { max_wait: 1h } }
"""


class Held:
    """A server that holds a request, and is asked to let it go by a request of which it has read no more than the head.

    So both are under way for as long as a test likes.
    """

    def __init__(self, tidegate):
        self.server = tidegate(HELD, flags=["--drain-timeout", "1h", "--header-timeout", "1h"])
        assert self.server.check({"user": "ann"}, domain="api").status_code == 200
        self.answers = []
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()
        wait_for("the request waits", lambda: self.server.metric("tidegate_held_requests") == 1)
        host, port = self.server.addresses["admin"].rsplit(":", 1)
        self.reset = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        head = f"POST /v1/reset HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        head += f"expect: 100-continue\r\ncontent-length: {len(BODY)}\r\n\r\n"
        self.reset.sendall(head.encode())
        # With this it asks for the body.
        assert self._heard(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")

    def _ask(self):
        self.answers.append(self.server.check({"user": "ann"}, domain="api"))

    def _heard(self, until):
        heard = b""
        while until not in heard:
            part = self.reset.recv(1 << 16)
            assert part, heard
            heard += part
        return heard

    def let_go(self):
        """The answer to the request that was held."""
        self.reset.sendall(BODY.encode())
        assert self._heard(b"reset").startswith(b"HTTP/1.1 200 ")
        self.reset.close()
        self.thread.join()
        return self.answers[0]


def test_a_request_that_is_held_is_answered_before_the_end(tidegate):
    held = Held(tidegate)
    held.server.process.signal(signal.SIGTERM)
    wait_for("it is about to stop", lambda: "stopping" in held.server.process.stderr())
    answer = held.let_go()
    assert answer.status_code == 200
    assert answer.json()["waited_ms"] > 0
    assert held.server.process.wait() == 0
    assert "cut off" not in held.server.process.stderr()


def test_it_is_not_ready_while_it_drains(tidegate):
    held = Held(tidegate)
    server = held.server
    server.process.signal(signal.SIGTERM)

    def is_not_ready():
        try:
            return requests.get(server.admin + "/readyz", timeout=DEADLINE_S).status_code == 503
        except requests.ConnectionError:
            return True  # Nobody is let in any more, which a load balancer understands too.

    wait_for("it is not ready", is_not_ready)
    server.process.must_run()
    assert held.let_go().status_code == 200
    assert server.process.wait() == 0


def test_idle_connections_do_not_hold_it_up(tidegate):
    # Were they given the time that requests under way are, it would not end before the test gives up.
    server = tidegate(RULES, flags=["--drain-timeout", "1h"])
    idle = [OverResp(server), OverGrpc(server)]
    session = requests.Session()
    session.post(server.url + "/v1/check", data=BODY, timeout=DEADLINE_S)
    for client in idle:
        client.check("api", {"user": "ann"})
    server.process.signal(signal.SIGTERM)
    assert server.process.wait() == 0
    for client in idle:
        client.close()
    session.close()


def test_a_client_that_never_finishes_is_not_waited_for_forever(tidegate):
    server = tidegate(RULES, flags=["--drain-timeout", "500ms", "--header-timeout", "1h"])
    slow = http.client.HTTPConnection(server.addresses["http"], timeout=DEADLINE_S)
    slow.putrequest("POST", "/v1/check")
    slow.putheader("content-length", "1000")
    slow.endheaders()
    slow.send(b"{")
    wait_for("the connection is there", lambda: server.metric("tidegate_connections", protocol="http") >= 1)
    server.process.signal(signal.SIGTERM)
    assert server.process.wait() == 0
    slow.close()


def test_sigkill_loses_at_most_what_came_after_the_last_snapshot(tidegate, tmp_path):
    flags = ["--data-dir", tmp_path / "data", "--snapshot-every", "1s"]
    server = tidegate(RULES, flags=flags, keeps_ports=True)
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
