"""The proxies of examples/proxies, each with its own file, on other ports."""

import os
import re
import shlex
import shutil
import socket

from .documents import with_ports
from .processes import Process
from .tidegate import keep_port
from .waiting import DEADLINE_S, wait_for

EXAMPLES = "examples/proxies"
# The timeouts of the files, by a longer one for a busy machine: a proxy that does not wait lets requests pass.
LONG = {"100ms": "60s", "250ms": "60s", "0.25s": "60s", "0.1s": "60s"}

# The file of each proxy, and its command.
FILES = {
    "nginx": "nginx.conf",
    "caddy": "Caddyfile",
    "traefik": "traefik.yaml",
    "haproxy": "haproxy.cfg",
    "envoy": "envoy.yaml",
}
COMMANDS = {
    "nginx": ["bin/nginx", "-p", ".", "-c", "CONFIG"],
    "caddy": ["bin/caddy", "run", "--config", "CONFIG", "--adapter", "caddyfile"],
    "traefik": ["bin/traefik", "--configFile=CONFIG"],
    "haproxy": ["bin/haproxy", "-f", "CONFIG"],
    "envoy": ["venv/bin/envoy", "-c", "CONFIG", "--concurrency", "1", "--use-dynamic-base-id"],
}


def documented_flags(root, name):
    """The flags of `tidegate serve` in the comment of a proxy's file, without the rules."""
    text = (root / EXAMPLES / FILES[name]).read_text()
    command = re.search(r"^#   tidegate serve (.*)$", text, re.M)[1]
    words = shlex.split(command)
    rules = words.index("--rules")
    return words[:rules] + words[rules + 2 :]


class Proxy:
    """A running proxy in front of `upstream`, which asks `server`."""

    def __init__(self, name, root, parts, directory, server, upstream, *, patient=True, change=None):
        """`change` replaces a text that occurs once in the proxy's file."""
        self.name = name
        self.kept = [keep_port(), keep_port()]
        self.port, own = (kept.getsockname()[1] for kept in self.kept)
        ports = {8000: self.port, 8001: own, 3000: upstream.port}
        ports |= {8080: server.port("http"), 8081: server.port("grpc")}
        copy = directory / EXAMPLES
        shutil.copytree(root / EXAMPLES, copy)
        for path in copy.iterdir():
            text = with_ports(path.read_text(), ports)
            if change and path.name == FILES[name]:
                assert text.count(change[0]) == 1, change
                text = text.replace(*change)
            if patient:
                text = re.sub(r"\b(?:100ms|250ms|0\.25s|0\.1s)(?=[\s;])", lambda time: LONG[time[0]], text)
            path.write_text(text)
        program, *arguments = [part.replace("CONFIG", f"{EXAMPLES}/{FILES[name]}") for part in COMMANDS[name]]
        if name == "nginx":
            # Without a slash at the start, nginx takes the path from its prefix.
            arguments[-1] = str(directory / arguments[-1])
        # Caddy writes files into the directories of its user.
        env = {**os.environ, "HOME": str(directory), "XDG_CONFIG_HOME": str(directory), "XDG_DATA_HOME": str(directory)}
        self.process = Process([parts / program, *arguments], directory / name, env=env, cwd=directory)
        try:
            wait_for(f"{name} listens", self._listens)
            # Traefik listens before it has read its routes.
            wait_for(f"{name} has routes", lambda: self.get("/")[0] != 404)
            upstream.seen.clear()
        except BaseException:
            self.process.kill()
            raise

    def _listens(self):
        self.process.must_run()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, target="/", headers=(), timeout_s=DEADLINE_S):
        """Sends this target as it is, and returns the status and the headers, with names in lower case."""
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        for default in ("connection: close", "host: shop.example"):
            if not any(name.lower() == default.split(":")[0] for name, _ in headers):
                lines.append(default)
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as client:
            client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            received = b""
            while chunk := client.recv(65536):
                received += chunk
        status, *head = received.decode("latin-1").split("\r\n\r\n", 1)[0].split("\r\n")
        pairs = [line.split(":", 1) for line in head]
        return int(status.split()[1]), {name.lower(): value.strip() for name, value in pairs}

    def statuses(self, count, target="/", headers=()):
        return [self.get(target, headers)[0] for _ in range(count)]

    def stop(self):
        try:
            return self.process.stop()
        finally:
            for kept in self.kept:
                kept.close()
