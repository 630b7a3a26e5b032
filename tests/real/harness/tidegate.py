"""`tidegate serve`, on free ports."""

import json
import os
import socket

import requests

from .processes import Process
from .waiting import DEADLINE_S, wait_for

PROTOCOLS = ("http", "grpc", "resp", "admin")
ANY_PORT = "127.0.0.1:0"


class Tidegate:
    """A running server. `addresses` has the bound address of each listener."""

    def __init__(self, binary, directory, rules=None, *, flags=(), addresses=None, env=None, keeps_ports=False):
        """With `keeps_ports`, the server can be restarted on the same ports."""
        self.binary, self.directory, self.flags, self.env = binary, directory, list(flags), env
        self.kept_ports = [keep_port() for _ in PROTOCOLS] if keeps_ports else []
        self.rules = None
        if rules is not None:
            self.rules = directory / "rules.yaml"
            self.rules.write_text(rules)
        self.starts = 0
        kept = {name: f"127.0.0.1:{port.getsockname()[1]}" for name, port in zip(PROTOCOLS, self.kept_ports)}
        self.start({**kept, **(addresses or {})})

    def start(self, addresses):
        """Starts the server. Listeners without an entry in `addresses` get a free port."""
        command = [self.binary, "serve", "--print-addresses", "json"]
        for protocol in PROTOCOLS:
            command += [f"--{protocol}", addresses.get(protocol, ANY_PORT)]
        if self.rules is not None:
            command += ["--rules", self.rules]
        # Settings in the environment of the test run must not change the tests.
        env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        self.starts += 1
        self.process = Process(
            command + self.flags, self.directory / f"tidegate-{self.starts}", env={**env, **(self.env or {})}
        )
        try:
            self.addresses = wait_for("tidegate prints its addresses", self._printed)
            wait_for("tidegate is ready", self.is_ready)
        except BaseException:
            self.process.kill()
            raise

    def _printed(self):
        self.process.must_run()
        for line in self.process.stdout().splitlines():
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except ValueError:
                    return None  # The line is not complete yet.
        return None

    def is_ready(self):
        # The admin listener never uses TLS here.
        try:
            return requests.get(self.admin + "/readyz", timeout=DEADLINE_S).status_code == 200
        except requests.ConnectionError:
            self.process.must_run()
            return False

    @property
    def url(self):
        return "http://" + self.addresses["http"]

    @property
    def admin(self):
        return "http://" + self.addresses["admin"]

    @property
    def grpc(self):
        return self.addresses["grpc"]

    @property
    def resp_port(self):
        return self.port("resp")

    def port(self, protocol):
        return int(self.addresses[protocol].rsplit(":", 1)[1])

    def check(self, attributes, *, domain, cost=1, path="/v1/check"):
        """Sends a request over HTTP and returns the response, also if it is an error."""
        body = {"domain": domain, "attributes": attributes, "cost": cost}
        return requests.post(self.url + path, json=body, timeout=DEADLINE_S)

    def stands(self, attributes, *, domain):
        """The active limit for these attributes, and how much of it is used. Charges nothing."""
        answer = self.check(attributes, domain=domain, cost=0, path="/v1/peek")
        limit = int(answer.headers["x-ratelimit-limit"])
        return limit, limit - answer.json()["remaining"]

    def metric(self, name, **labels):
        """The sum of the samples of a metric with these labels."""
        total = 0.0
        for line in requests.get(self.admin + "/metrics", timeout=DEADLINE_S).text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.split("{")[0] == name and all(f'{key}="{value}"' in sample for key, value in labels.items()):
                total += float(value)
        return total

    def restart(self):
        """Starts the server again on its addresses, which the system has given to no other process."""
        self.start(self.addresses)

    def stop(self):
        return self.process.stop()

    def close(self):
        """Releases the kept ports, if any."""
        for kept in self.kept_ports:
            kept.close()


def keep_port():
    """Reserves a port: the system gives it to no other process, but a process may bind it by number."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept
