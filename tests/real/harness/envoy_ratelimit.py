"""envoyproxy/ratelimit, built from source by scripts/install-test-parts, with a Redis of its own."""

import os

import requests

from .processes import Process
from .tidegate import keep_port
from .waiting import DEADLINE_S, wait_for

PORTS = ("PORT", "GRPC_PORT", "DEBUG_PORT")


class EnvoyRatelimit:
    """A running server. `files` maps the name of a file to its text, `env` has further settings."""

    def __init__(self, program, redis, files, directory, *, env=None):
        config = directory / "ratelimit/config"
        config.mkdir(parents=True)
        for name, text in files.items():
            (config / name).write_text(text)
        self.kept_ports = [keep_port() for _ in PORTS]
        ports = {name: str(port.getsockname()[1]) for name, port in zip(PORTS, self.kept_ports)}
        settings = {
            **ports,
            **{name: "127.0.0.1" for name in ("HOST", "GRPC_HOST", "DEBUG_HOST")},
            "RUNTIME_ROOT": str(directory),
            "RUNTIME_SUBDIRECTORY": "ratelimit",
            "REDIS_SOCKET_TYPE": "tcp",
            "REDIS_URL": redis.address,
            "USE_STATSD": "false",
            "DISABLE_STATS": "true",
            "LOG_LEVEL": "ERROR",
            **(env or {}),
        }
        # None of its settings may come from the environment of the test run.
        self.process = Process([program], directory / "ratelimit", env={"PATH": os.environ["PATH"], **settings})
        self.grpc = f"127.0.0.1:{ports['GRPC_PORT']}"
        self.health_url = f"http://127.0.0.1:{ports['PORT']}/healthcheck"
        try:
            wait_for("envoyproxy/ratelimit is healthy", self._is_healthy)
        except BaseException:
            self.process.kill()
            raise

    def _is_healthy(self):
        self.process.must_run()
        try:
            return requests.get(self.health_url, timeout=DEADLINE_S).status_code == 200
        except requests.ConnectionError:
            return False

    def stop(self):
        return self.process.stop()

    def close(self):
        for kept in self.kept_ports:
            kept.close()
