"""The middleware of docs/clients.md, extracted from the page and run in its framework."""

import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from harness.documents import rules_of
from harness.processes import Process
from harness.tidegate import keep_port
from harness.waiting import DEADLINE_S, wait_for

EXPRESS = """
const express = require("express");
@MIDDLEWARE@
const app = express();
app.use(rateLimit({ url: "@URL@", domain: "api", timeoutMs: @TIMEOUT_MS@ }));
app.get("/", (req, res) => res.send("ok"));
app.listen(@PORT@, "127.0.0.1");
"""

FASTAPI = """
@MIDDLEWARE@

import uvicorn
from fastapi import FastAPI

app = FastAPI()
app.middleware("http")(rate_limit)


@app.get("/")
def root():
    return "ok"


uvicorn.run(app, host="127.0.0.1", port=@PORT@, log_level="warning")
"""

GO = """
package main

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

@MIDDLEWARE@

func main() {
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	http.ListenAndServe("127.0.0.1:@PORT@", RateLimit(ok, "@URL@", "api", @TIMEOUT_MS@*time.Millisecond))
}
"""

# The language of the block on the page, the program around it, its file and its command.
PROGRAMS = {
    "express": ("js", EXPRESS, "server.js", ["bin/node", "server.js"]),
    "fastapi": ("python", FASTAPI, "server.py", ["venv/bin/python", "server.py"]),
    "go": ("go", GO, "main.go", ["./server"]),
}


def program_path(parts, directory, name):
    """A part, or a program that was built."""
    return directory / name if name.startswith("./") else parts / name


class StatusServer:
    """Answers every request with one status."""

    def __init__(self, status):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Application:
    """A program with the middleware."""

    def __init__(self, name, page, parts, url, timeout_ms, directory):
        language, program, file, command = PROGRAMS[name]
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)
        assert len(blocks) == 1
        self.kept = keep_port()
        port = self.kept.getsockname()[1]
        program = program.replace("@MIDDLEWARE@", blocks[0])
        marks = {"@URL@": url, "http://127.0.0.1:8080": url, "@PORT@": port, "@TIMEOUT_MS@": timeout_ms}
        for mark, text in (marks | {"timeout=0.1": f"timeout={timeout_ms / 1000}"}).items():
            program = program.replace(mark, str(text))
        (directory / file).write_text(program)
        if name == "express":
            (directory / "node_modules").symlink_to(parts / "express/node_modules")
        env = {**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
        self.url = f"http://127.0.0.1:{port}/"
        if name == "go":
            build = [parts / "bin/go", "build", "-o", "server", file]
            subprocess.run(build, check=True, cwd=directory, env=env, timeout=600)
        self.process = Process([program_path(parts, directory, command[0]), *command[1:]], directory / name, env=env, cwd=directory)
        wait_for(f"{name} listens", self._listens)

    def _listens(self):
        self.process.must_run()
        try:
            requests.head(self.url + "unknown", timeout=DEADLINE_S)
        except requests.ConnectionError:
            return False
        return True

    def stop(self):
        self.process.stop()

    def close(self):
        self.kept.close()


@pytest.fixture(params=PROGRAMS)
def application(request, root, parts, kept):
    """Starts a program: application(server, timeout_ms)."""

    def start(server, timeout_ms):
        return kept(Application, request.param, root / "docs/clients.md", parts, server.url, timeout_ms)

    return start


def test_a_limit_holds_and_is_told(application, root, tidegate):
    server = tidegate(rules_of(root / "docs/clients.md").replace("3 per hour", "1000 per hour"))
    # A busy machine may need longer than the recommended timeout, which lets requests pass.
    running = application(server, timeout_ms=60_000)
    server.check({"ip": "127.0.0.1"}, domain="api", cost=990)
    answers = [requests.get(running.url, timeout=DEADLINE_S) for _ in range(20)]
    passed = [answer for answer in answers if answer.status_code == 200]
    denied = [answer for answer in answers if answer.status_code == 429]
    assert passed and denied and len(passed) + len(denied) == 20
    assert all(answer.text.strip('"') == "ok" and "retry-after" not in answer.headers for answer in passed)
    assert all(answer.headers["ratelimit"].startswith('"per-address/1";r=') for answer in answers)
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in denied)


def test_only_a_200_passes(application, root, tidegate, stopping):
    server = tidegate(rules_of(root / "docs/clients.md"))
    running = application(server, timeout_ms=60_000)
    # Encoded as a parameter, the path is larger than a head may be.
    assert requests.get(running.url + "(" * 6_000, timeout=DEADLINE_S).status_code == 431
    for status in (503, 400):
        stub = StatusServer(status)
        stopping.append(stub)
        running = application(stub, timeout_ms=60_000)
        assert requests.get(running.url, timeout=DEADLINE_S).status_code == status


def test_requests_pass_while_tidegate_is_away(application, root, tidegate):
    server = tidegate(rules_of(root / "docs/clients.md"))
    running = application(server, timeout_ms=100)
    server.process.suspend()
    try:
        hanging = [requests.get(running.url, timeout=DEADLINE_S).status_code for _ in range(5)]
    finally:
        server.process.resume()
    server.process.kill()
    stopped = [requests.get(running.url, timeout=DEADLINE_S).status_code for _ in range(5)]
    assert hanging + stopped == [200] * 10
