"""Several servers that share a store, and clients that use all of them concurrently."""

import http.client
import json
import threading
import time
from dataclasses import dataclass

import requests

from .asking import OverGrpc, OverResp
from .waiting import DEADLINE_S, wait_for

DOMAIN = "api"
PASSES = {"allowed", "delayed"}


@dataclass(frozen=True)
class Answer:
    """Any answer to a request. `seconds` is how long the client waited for it."""

    status: int
    decision: str
    degraded: bool
    seconds: float
    headers: dict
    body: dict

    @property
    def passes(self):
        return self.decision in PASSES

    @property
    def shared(self):
        """Whether the shared store decided it."""
        return not self.degraded and self.status in (200, 429)


class OverConnection:
    """Sends requests to one server over HTTP, one after the other on one connection."""

    protocol = "http"

    def __init__(self, server):
        host, port = server.addresses["http"].rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)

    def ask(self, attributes, *, cost=1, path="/v1/check", **more):
        body = json.dumps({"domain": DOMAIN, "attributes": attributes, "cost": cost, **more})
        began = time.monotonic()
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        seconds = time.monotonic() - began
        body = json.loads(text)
        headers = {name.lower(): value for name, value in response.getheaders()}
        degraded = body.get("degraded", False)
        assert (headers.get("x-tidegate-degraded") == "true") == degraded, (headers, body)
        return Answer(response.status, body.get("decision", ""), degraded, seconds, headers, body)

    def check(self, domain, attributes, cost=1):
        assert domain == DOMAIN
        return self.ask(attributes, cost=cost).decision

    def close(self):
        self.connection.close()


class Fleet:
    """Running servers with the same rules and the same store."""

    def __init__(self, servers):
        self.servers = servers

    def clients(self, count, *, protocols=(OverConnection,)):
        """Returns `count` clients, spread over servers and protocols."""
        servers, kinds = len(self.servers), len(protocols)
        return [protocols[number // servers % kinds](self.servers[number % servers]) for number in range(count)]

    def metric(self, name, **labels):
        """The sum over all servers."""
        return sum(server.metric(name, **labels) for server in self.servers)

    def undecided(self):
        """Decisions of rules with `deny` that the store did not make in time. It may have charged them."""
        return self.metric("tidegate_decisions_total", decision="unavailable")

    def wait_for_each_other(self):
        """Waits until every server sees all others."""
        count = len(self.servers)
        wait_for(
            f"each server sees {count} servers",
            lambda: all(server.metric("tidegate_store_live_nodes") == count for server in self.servers),
        )

    def wait_until_shared(self, *attributes):
        """Waits until the store decides these requests for every server. Their cost is 0."""

        for server in self.servers:
            client = OverConnection(server)
            try:
                for each in attributes:
                    wait_for(f"the store decides {each} again", lambda client=client, each=each: self._shares(client, each))
            except AssertionError as failure:
                raise AssertionError(f"{failure}\n{server.process.stderr()[-2000:]}") from failure
            finally:
                client.close()

    def _shares(self, client, attributes):
        return client.ask(attributes, cost=0).shared

    def must_run(self):
        for server in self.servers:
            server.process.must_run()
            assert "panicked" not in server.process.stderr()


def operate(server, path, attributes, **more):
    """Sends `/v1/refund` or `/v1/reset` to the admin listener and returns the response."""
    body = {"domain": DOMAIN, "attributes": attributes, **more}
    return requests.post(server.admin + path, json=body, timeout=DEADLINE_S)


EVERY_PROTOCOL = (OverConnection, OverConnection, OverResp, OverGrpc)


def all_at_once(clients, times, ask):
    """The results of `ask(client, number)`. All clients start together, and each asks `times` times.

    `number` counts the requests of all clients, so that `ask` can spread keys by it.
    """
    gate, answers, failures = threading.Barrier(len(clients)), [], []

    def work(place, client):
        try:
            gate.wait(DEADLINE_S)
            for time_of_it in range(times):
                answers.append(ask(client, place + time_of_it))
        except Exception as failure:
            failures.append(f"{client.protocol}: {failure!r}")

    threads = [threading.Thread(target=work, args=each) for each in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return answers


class Load:
    """Clients that send requests to all servers of a fleet, with pauses, until they are stopped.

    with Load(fleet, ask) as load: ..., where `ask(client, number)` sends one request and returns what to keep.
    """

    def __init__(self, fleet, ask, *, clients=16, pause_s=0.01):
        self.ask, self.pause_s = ask, pause_s
        self.clients = fleet.clients(clients)
        self.answers, self.failures = [], []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._work, args=each) for each in enumerate(self.clients)]

    def _work(self, number, client):
        while not self.stopping.is_set():
            try:
                self.answers.append(self.ask(client, number))
            except Exception as failure:
                self.failures.append(repr(failure))
                return
            number += 1
            self.stopping.wait(self.pause_s)

    def more(self, count=None):
        """Waits for `count` more answers, by default a few from each client."""
        had, count = len(self.answers), count or 5 * len(self.clients)
        wait_for(f"{count} more answers", lambda: self.failures or len(self.answers) >= had + count)
        return self.answers[had:]

    def lasts(self, seconds):
        """Goes on for this time and returns the answers of that time."""
        had, until = len(self.answers), time.monotonic() + seconds
        wait_for("the time is over", lambda: self.failures or time.monotonic() >= until, deadline_s=seconds + DEADLINE_S)
        return self.answers[had:]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, failed, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for client in self.clients:
            client.close()
        if failed is None:
            assert not self.failures, self.failures


def rule(name, limit, **more):
    """A line of a rules file: limits requests with `by: NAME` per user."""
    fields = {"name": name, "match": f"{{ by: {name} }}", "key": "[user]", "limit": limit, **more}
    return "  - { " + ", ".join(f"{field}: {value}" for field, value in fields.items()) + " }\n"


def rules(*lines):
    return f"domain: {DOMAIN}\nrules:\n" + "".join(lines)
