"""`tidegate serve`, on free ports."""

import json
import os

import requests

from .processes import Process
from .waiting import wait_for

PROTOCOLS = ("http", "grpc", "resp", "admin")
ANY_PORT = "127.0.0.1:0"


class Tidegate:
    """A running server. `addresses` has what each listener really bound."""

    def __init__(self, binary, directory, rules=None, *, flags=(), addresses=None, env=None):
        self.binary, self.directory, self.flags, self.env = binary, directory, list(flags), env
        self.rules = None
        if rules is not None:
            self.rules = directory / "rules.yaml"
            self.rules.write_text(rules)
        self.starts = 0
        self.start(addresses or {})

    def start(self, addresses):
        """Starts it; `addresses` has those that are not to be picked by the system."""
        command = [self.binary, "serve", "--print-addresses", "json"]
        for protocol in PROTOCOLS:
            command += [f"--{protocol}", addresses.get(protocol, ANY_PORT)]
        if self.rules is not None:
            command += ["--rules", self.rules]
        # What is set in the environment of whoever runs the tests is not to change what is tested.
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
        # Operators are always served in the clear here.
        try:
            return requests.get(self.admin + "/readyz", timeout=5).status_code == 200
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
        """Asks over HTTP. The response, whatever it is."""
        body = {"domain": domain, "attributes": attributes, "cost": cost}
        return requests.post(self.url + path, json=body, timeout=30)

    def stands(self, attributes, *, domain):
        """The limit in force for these attributes, and how much of it is used. Charges nothing."""
        answer = self.check(attributes, domain=domain, cost=0, path="/v1/peek")
        limit = int(answer.headers["x-ratelimit-limit"])
        return limit, limit - answer.json()["remaining"]

    def metric(self, name, **labels):
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in requests.get(self.admin + "/metrics", timeout=10).text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.split("{")[0] == name and all(f'{key}="{value}"' in sample for key, value in labels.items()):
                total += float(value)
        return total

    def restart(self):
        """Again, on the addresses it had."""
        self.start(self.addresses)

    def stop(self):
        return self.process.stop()
