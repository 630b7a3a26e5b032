"""Shutdown under load, and the counters after the restart."""

import http.client
import json
import signal
import threading

import grpc
import redis
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
    """Clients of every protocol that send requests until the server is gone, and count the answers.

    A connection that the server closes between two requests is not a failure, but half an answer is. The counters after
    the restart show whether a decided request was not answered.
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
                continue  # Between two requests: no byte of an answer has arrived.
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
            # The client reconnects by itself, but the server is gone.
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
        assert used(server) - before == answered, "every decision was answered, and every answer is counted"
