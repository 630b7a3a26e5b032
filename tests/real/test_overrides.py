"""Overrides of single keys: in a fleet, after a kill, and while Redis is away."""

import json
import re
import signal
import socket
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


def test_a_feed_that_is_cut_after_its_first_read_misses_nothing(fleet, redis_server, fault_proxy):
    """A node reads everything when it starts, and then polls. What changes in between must not be missed."""
    redis = redis_server()
    proxy = fault_proxy(redis)
    editor = fleet(RULES, redis.url, servers=1).servers[0]
    for round in range(8):
        known, later, bot = f"known-{round}", f"later-{round}", f"bot-{round}-"
        ban(editor, known)
        node = fleet(RULES, proxy.url, servers=1).servers[0]
        wait_for("the node knows the ban", lambda node=node, known=known: status(node, known) == 403)
        # Cut after more and more decisions, so at another time before or after the first poll.
        assert all(status(node, known) == 403 for _ in range(20 * round))
        proxy.resets()
        change(editor, "POST", "v1/unban", {"key": {"user": known}})
        ban(editor, later)
        body = {"domain": "api", "rule": "per-user", "key": {"user": bot + "*"}, "blocked": True, "status": 403}
        change(editor, "PUT", "v1/overrides", body)
        proxy.passes()

        def is_up_to_date(node=node, users=(known, later, bot + "1")):
            return [status(node, user) == 403 for user in users] == [False, True, True]

        wait_for("the node has all changes", is_up_to_date)
        node.process.kill()


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


def test_no_request_is_decided_before_the_overrides_are_read(tidegate, fleet, redis_server, tmp_path):
    """A wildcard may block anyone, so a server is ready only when it has them."""
    alone = tidegate(RULES, flags=["--data-dir", tmp_path / "data"], keeps_ports=True)
    url = redis_server().url
    shared = fleet(RULES, url, servers=1).servers[0]
    body = {"domain": "api", "rule": "per-user", "key": {"user": "bot-*"}, "blocked": True, "status": 403}
    for server in (alone, shared):
        change(server, "PUT", "v1/overrides", body)
    for round in range(5):
        alone.process.kill()
        alone.restart()
        later = fleet(RULES, url, servers=1).servers[0]
        assert [status(server, f"bot-{round}") for server in (alone, later)] == [403, 403]


def test_bans_that_have_ended_are_deleted_from_the_store(tidegate, tmp_path):
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data"], keeps_ports=True)
    set_limit(server, "ann", 7)
    for user in range(20):
        change(server, "POST", "v1/ban", {"key": {"user": f"bot-{user}"}, "for": "1s"})
    wait_for("the bans end", lambda: status(server, "bot-19") == 200)
    server.process.kill()
    server.restart()
    # A start is when a purge may begin, and this is the first one with overrides.
    wait_for("they are deleted", lambda: server.metric("tidegate_override_purged_total") == 20)
    listed = requests.get(server.admin + "/v1/overrides", timeout=DEADLINE_S).json()
    assert [one["key"]["user"] for one in listed["overrides"]] == ["ann"]


def write_overrides(path, number):
    lines = ({"domain": "api", "rule": "per-user", "key": {"user": f"u{index}"}, "limit": 7} for index in range(number))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def import_command(binary, server, path, *more):
    return [binary, "override", "import", path, "--admin", server.admin, *more]


def line_to_continue_with(text):
    return max(int(line) for line in re.findall(r"--from-line (\d+)", text))


def users_with_overrides(binary, server):
    exported = subprocess.run(
        [binary, "override", "export", "--admin", server.admin], capture_output=True, text=True, check=True
    )
    return {json.loads(line)["key"]["user"] for line in exported.stdout.splitlines()}


def test_an_import_continues_after_a_kill_of_the_server(tidegate, binary, tmp_path):
    lines = 60_000
    path = write_overrides(tmp_path / "overrides.jsonl", lines)
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data"], keeps_ports=True)
    first_line = 1
    for batches in (1, 2, 3):
        more = ["--from-line", str(first_line)]
        written = server.metric("tidegate_override_cache_entries")
        importing = Process(import_command(binary, server, path, *more), tmp_path / f"import-{batches}")
        wait_for(
            "some batches are written",
            lambda: server.metric("tidegate_override_cache_entries") >= written + (batches - 1) * 5_000 + 1,
        )
        server.process.kill()
        assert importing.wait() == 2
        first_line = line_to_continue_with(importing.stderr())
        server.restart()
        users = users_with_overrides(binary, server)
        missing = [index for index in range(first_line - 1) if f"u{index}" not in users]
        assert not missing, f"lines before {first_line} were acknowledged: {missing[:5]}"
    rest = subprocess.run(
        import_command(binary, server, path, "--from-line", str(first_line)), capture_output=True, text=True, check=False
    )
    assert rest.returncode == 0, rest.stderr
    assert len(users_with_overrides(binary, server)) == lines


def test_an_import_continues_after_a_kill_of_the_command(tidegate, binary, tmp_path):
    lines = 250_000
    path = write_overrides(tmp_path / "overrides.jsonl", lines)
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data"])
    importing = Process(import_command(binary, server, path), tmp_path / "import")
    wait_for("the command says where to continue", lambda: "--from-line" in importing.stderr())
    importing.kill()
    first_line = line_to_continue_with(importing.stderr())
    users = users_with_overrides(binary, server)
    assert 1 < first_line <= lines + 1
    assert all(f"u{index}" in users for index in range(first_line - 1))
    rest = subprocess.run(
        import_command(binary, server, path, "--from-line", str(first_line)), capture_output=True, text=True, check=False
    )
    assert rest.returncode == 0, rest.stderr
    assert len(users_with_overrides(binary, server)) == lines


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


def test_bans_on_a_member_that_answers_apply_while_another_is_away(fleet, binary, redis_server, tmp_path):
    members = [redis_server() for _ in range(2)]
    ring = "redis+ring://" + ",".join(member.address for member in members)
    # Generous, because the machine may stop for a while.
    flags = ["--override-timeout", "400ms"]
    editor = fleet(RULES, ring, servers=1, flags=flags).servers[0]
    users = [f"user-{number}" for number in range(200)]
    path = tmp_path / "bans.csv"
    path.write_text("".join(["domain,rule,key.user,blocked\n", *(f"api,per-user,{user},true\n" for user in users)]))
    subprocess.run(import_command(binary, editor, path), check=True, timeout=DEADLINE_S)

    def banned_at(member):
        values = [key for key in member.keys("tg:1config*") if key.endswith("values")]
        return {name.rpartition("user=")[2] for key in values for name in member.ask("HKEYS", key)}

    [live, lost] = [banned_at(member) for member in members]
    assert live | lost == set(users) and min(len(live), len(lost)) > 20, (len(live), len(lost))
    # It has not read any of them.
    node = fleet(RULES, ring, servers=1, flags=flags).servers[0]
    members[1].kill()
    statuses = {user: status(node, user) for user in users}
    assert {statuses[user] for user in live} == {429}, statuses
    assert {statuses[user] for user in lost} == {200}, statuses


def test_an_edit_whose_client_goes_away_has_an_audit_line(fleet, redis_server):
    redis = redis_server()
    node = fleet(RULES, redis.url, servers=1, timeout="10s").servers[0]
    ban(node, "ann")
    redis.pause()
    try:
        connection = socket.create_connection(node.admin.removeprefix("http://").split(":"), timeout=DEADLINE_S)
        body = json.dumps({"key": {"user": "bob"}, "status": 403})
        head = f"host: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        connection.sendall(f"POST /v1/ban HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
        connection.close()
    finally:
        redis.resume()
    wait_for("both bans have a line", lambda: node.process.stderr().count("override changed") == 2)
    assert status(node, "bob") == 403


def test_damaged_and_newer_records_are_reported_and_mended(fleet, binary, redis_server):
    """Records are in the store before the node starts: one damaged, one in a newer format, and one that is whole."""
    redis = redis_server()
    editor = fleet(RULES, redis.url, servers=1).servers[0]
    users = ["damaged", "newer", "whole"]
    for user in users:
        ban(editor, user)
    editor.process.stop()
    for key in redis.keys("tg:1config*values"):
        for name, value in redis.ask("HGETALL", key).items():
            version = value.partition(" ")[0]
            if name.endswith("user=damaged"):
                redis.ask("HSET", key, name, f"{version} no record")
            elif name.endswith("user=newer"):
                redis.ask("HSET", key, name, f'{version} {{"v":9,"overrides":[]}}')

    # Generous, because the machine may stop for a while.
    node = fleet(RULES, redis.url, servers=1, timeout="2s", flags=["--override-timeout", "1s"]).servers[0]
    assert [status(node, user) for user in users] == [200, 200, 403]
    wait_for("both are counted", lambda: node.metric("tidegate_override_unusable_records_total") == 2)
    for user, problem in [("damaged", "it is damaged"), ("newer", "it has format 9")]:

        def lines(user=user):
            return [line for line in node.process.stderr().splitlines() if f"user={user}" in line]

        wait_for("the log names it", lines)
        assert len(lines()) == 1 and "ERROR" in lines()[0] and problem in lines()[0], node.process.stderr()

    def operator(*words):
        command = [binary, *words, "--admin", node.admin]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    place = ["--domain", "api", "--rule", "per-user", "--key"]
    refused = operator("unban", "user=damaged")
    assert refused.returncode == 1 and "(hint: " in refused.stderr, refused
    refused = operator("override", "set", *place, "user=newer", "--limit", "1")
    assert refused.returncode == 1 and "newer version" in refused.stderr, refused
    deleted = operator("override", "delete", *place, "user=damaged")
    assert deleted.returncode == 0 and "was damaged" in deleted.stderr, deleted
    wait_for("the audit log has it", lambda: "damaged_before=true" in node.process.stderr())
    mended = operator("ban", "user=damaged")
    assert mended.returncode == 0, mended
    assert status(node, "damaged") == 429
