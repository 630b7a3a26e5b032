"""Overrides of single keys: in a fleet, after a kill, and while Redis is away."""

import signal
import subprocess
import time

import requests
from harness.processes import Process
from harness.tidegate import Tidegate
from harness.waiting import DEADLINE_S, wait_for

RULES = """
domain: api
rules:
  - name: per-user
    key: [user]
    limit: { limit: 5, per: 1h, algorithm: fixed_window }
"""


def status(server, user):
    body = {"domain": "api", "attributes": {"user": user}}
    return requests.post(server.url + "/v1/check", json=body, timeout=DEADLINE_S).status_code


def change(server, method, path, body):
    reply = requests.request(method, server.admin + "/" + path, json=body, timeout=DEADLINE_S)
    assert reply.status_code == 200, reply.text
    return reply.json()


def ban(server, user):
    return change(server, "POST", "v1/ban", {"key": {"user": user}, "for": "15m", "status": 403})


def set_limit(server, user, limit):
    body = {"domain": "api", "rule": "per-user", "key": {"user": user}, "limit": limit}
    return change(server, "PUT", "v1/overrides", body)


def test_every_node_applies_an_override(fleet, redis_server):
    nodes = fleet(RULES, redis_server().url, servers=3).servers
    for round in range(3):
        user = f"user-{round}"
        # Each node knows the key before the change.
        assert [status(node, user) for node in nodes] == [200] * 3
        ban(nodes[round], user)
        assert status(nodes[round], user) == 403, "the node that takes it applies it at once"
        begin = time.monotonic()
        wait_for("all nodes apply the ban", lambda user=user: all(status(node, user) == 403 for node in nodes))
        # Printed, not asserted: docs/overrides.md says two seconds, but a machine can stop for longer.
        print(f"all nodes apply the ban after {time.monotonic() - begin:.2f} s")
        change(nodes[(round + 1) % 3], "POST", "v1/unban", {"key": {"user": user}})
        wait_for("all nodes lift the ban", lambda user=user: all(status(node, user) != 403 for node in nodes))


def test_nodes_keep_what_they_know_while_redis_is_away(fleet, redis_server):
    redis = redis_server()
    nodes = fleet(RULES, redis.url, servers=2).servers
    ban(nodes[0], "ann")
    wait_for("both nodes apply the ban", lambda: all(status(node, "ann") == 403 for node in nodes))
    redis.pause()
    try:
        wait_for("the feed is late", lambda: nodes[1].metric("tidegate_override_feed_age_seconds") >= 3)
        assert [status(node, "ann") for node in nodes] == [403, 403]
        assert status(nodes[1], "bob") == 200
    finally:
        redis.resume()
    wait_for("the feed is up to date", lambda: nodes[1].metric("tidegate_override_feed_age_seconds") < 2)
    ban(nodes[0], "bob")
    wait_for("the other node follows again", lambda: status(nodes[1], "bob") == 403)


def test_overrides_in_the_data_directory_survive_a_kill(tidegate, tmp_path):
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data"], keeps_ports=True)
    for round in range(5):
        set_limit(server, f"user-{round}", "2 per hour")
        ban(server, f"banned-{round}")
        server.process.signal(signal.SIGKILL)
        server.process.wait()
        server.restart()
        for earlier in range(round + 1):
            assert status(server, f"banned-{earlier}") == 403
        statuses = [status(server, f"user-{round}") for _ in range(3)]
        assert statuses == [200, 200, 429]


class SmallDisk:
    """A file system of a few MiB, in a namespace of its own. Programs see it at `path` if they are started by `enter`."""

    def __init__(self, directory, path, mebibytes):
        path.mkdir()
        script = f"mount -t tmpfs -o size={mebibytes}m none {path} && echo mounted && exec sleep infinity"
        namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
        self.holder = Process([*namespaces, "sh", "-c", script], directory / "small-disk")
        wait_for("the small disk is mounted", lambda: self.holder.must_run() or "mounted" in self.holder.stdout())
        self.enter = ["nsenter", f"--target={self.holder.pid}", "--user", "--mount", "--preserve-credentials"]

    def run(self, *command):
        return subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=DEADLINE_S)

    def stop(self):
        self.holder.kill()


def test_a_full_disk_refuses_edits_and_loses_nothing(binary, tmp_path, stopping):
    disk = SmallDisk(tmp_path, tmp_path / "disk", mebibytes=64)
    stopping.append(disk)
    program = tmp_path / "tidegate"
    program.write_text(f"#!/bin/sh\nexec {' '.join(disk.enter)} {binary} \"$@\"\n")
    program.chmod(0o755)
    flags = ["--data-dir", tmp_path / "disk/data"]
    server = Tidegate(program, tmp_path, RULES, flags=flags, keeps_ports=True)
    stopping.append(server)

    def edit(user):
        body = {"domain": "api", "rule": "per-user", "key": {"user": user}, "blocked": True}
        return requests.put(server.admin + "/v1/overrides", json=body, timeout=DEADLINE_S)

    assert edit("before").status_code == 200
    # dd ends with an error when the disk is full.
    filled = disk.run("dd", "if=/dev/zero", f"of={tmp_path}/disk/filler", "bs=64k")
    assert "No space left" in filled.stderr, filled
    refused = edit("during")
    assert refused.status_code == 503, refused.text
    assert "the disk of" in refused.json()["detail"] and refused.json()["hint"], refused.text
    # Decisions go on, with the overrides that there are.
    assert (status(server, "before"), status(server, "during")) == (429, 200)
    # A server that is killed starts on the full disk, too.
    server.process.kill()
    server.restart()
    assert (status(server, "before"), status(server, "during")) == (429, 200)
    assert edit("during").status_code == 503
    assert disk.run("rm", tmp_path / "disk/filler").returncode == 0
    assert edit("after").status_code == 200
    server.process.kill()
    server.restart()
    assert [status(server, user) for user in ("before", "during", "after")] == [429, 200, 429]


def test_an_override_expires_although_the_clock_steps_back(tidegate, parts, tmp_path):
    offset = tmp_path / "offset"
    offset.write_text("+0")
    env = {
        "LD_PRELOAD": str(parts / "bin/libfaketimeMT.so.1"),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
    }
    server = tidegate(RULES, env=env)
    change(server, "POST", "v1/ban", {"key": {"user": "ann"}, "for": "10s"})
    assert status(server, "ann") == 429
    offset.write_text("-1h")
    wait_for("the server notices the step", lambda: "the wall clock was set back" in server.process.stderr())
    wait_for("the ban ends", lambda: status(server, "ann") == 200)
    # An override that is set after the step expires, too.
    change(server, "POST", "v1/ban", {"key": {"user": "bob"}, "for": "2s"})
    assert status(server, "bob") == 429
    wait_for("the later ban ends", lambda: status(server, "bob") == 200)
