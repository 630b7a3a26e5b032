"""docs/fleet.md: its commands work (with other ports), its ACL rule is sufficient, its alerts are valid."""

import os
import pathlib
import re
import shutil
import signal
import socket
import textwrap

import pytest
import requests
from harness.documents import indented_block, shell_blocks, with_ports
from harness.processes import Process
from harness.waiting import DEADLINE_S, wait_for

REDIS, CHECKS, ADMINS, BALANCER = range(7001, 7007), (8101, 8102, 8103), (9101, 9102, 9103), 8100
# Below the system's range of ephemeral ports. The cluster bus uses the port plus 10,000.
PORTS, BUS_ABOVE = range(12_000, 22_000), 10_000
PASSWORD = "secret"


@pytest.fixture
def page(root):
    return root / "docs/fleet.md"


@pytest.fixture
def ports(closing):
    """Free ports that replace those of the page."""
    chosen = {}
    free = iter(PORTS[os.getpid() % 5_000 :])
    for port in (*REDIS, *CHECKS, *ADMINS, BALANCER):
        chosen[port] = next(at for at in free if kept([at, at + BUS_ABOVE], closing))
    return chosen


def kept(ports, closing):
    """Reserves these ports if all of them are free. Processes can still bind them by number."""
    sockets = []
    for port in ports:
        one = closing(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sockets.append(one)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            for each in sockets:
                each.close()
            return False
    return True


@pytest.fixture
def shell(root, binary, parts, tmp_path, ports):
    """Runs blocks of the page in one shell, in a copy of the examples. Returns the output with the ports of the page."""
    at_root, tools = tmp_path / "root", tmp_path / "bin"
    shutil.copytree(root / "examples", at_root / "examples")
    for example in (at_root / "examples/fleet").iterdir():
        example.write_text(with_ports(example.read_text(), ports))
    tools.mkdir()
    for name, path in (("tidegate", binary), ("nginx", parts / "bin/nginx"), ("redis-server", parts / "bin/redis-server")):
        (tools / name).symlink_to(path.resolve())
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    env["PATH"] = f"{tools}:{env['PATH']}"
    back = {theirs: ours for ours, theirs in ports.items()}

    def run(blocks):
        script = tmp_path / "script.sh"
        # A busy machine may need longer than the recommended timeout.
        text = with_ports("\n".join(blocks), ports).replace("--store-timeout 50ms", "--store-timeout 30s")
        script.write_text(text)
        process = Process(["bash", "-eux", script], tmp_path / "shell", env=env, cwd=at_root)
        try:
            assert process.wait(300) == 0, process.stdout() + process.stderr()
        finally:
            process.kill()
        return with_ports(process.stdout(), back)

    yield run
    # The commands stop the processes that they start, unless one of them failed.
    for pid in uses(at_root):
        os.kill(pid, signal.SIGTERM)
    wait_for("all started processes have ended", lambda: not any(uses(at_root)))


def uses(directory):
    """The processes whose working directory is in this directory."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").resolve(strict=True)
        except OSError:
            continue
        if where.is_relative_to(directory):
            yield int(process.name)


def commands_of(section):
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


def section_of(page, heading):
    return page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def assert_shows(section, said):
    """The output has every answer line of the section, in the same order."""
    shown = [line.strip() for line in section.splitlines() if re.match(r"    .*\d{3}, \d+ left$", line)]
    assert len(shown) == 6
    assert [line for line in said.splitlines() if line.endswith(" left")] == shown, said


# The two tests that choose ports by number run on one worker, so that they do not choose the same ports.
BY_NUMBER = pytest.mark.xdist_group("ports by number")


@BY_NUMBER
def test_three_servers_on_a_cluster(page, shell):
    section = section_of(page, "Three nodes on a Redis Cluster")
    said = shell(commands_of(section))
    assert_shows(section, said)
    assert "tg:1{ann}" in said and "tg:1nodes" in said
    assert re.search(r"^tidegate_store_live_nodes 3$", said, re.M), said
    assert said.splitlines().count('"degraded":false') == 5, "Redis decides all users again"


@BY_NUMBER
def test_sticky_routing(page, shell):
    section = section_of(page, "Sticky routing, without Redis")
    assert_shows(section, shell(commands_of(section)))


def test_no_command_is_left_out(page):
    sections = ("Three nodes on a Redis Cluster", "Sticky routing, without Redis")
    run = sum(len(commands_of(section_of(page, heading))) for heading in sections)
    assert run == len(list(shell_blocks(page))) >= 9


RULES = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 5 per day }
  - { name: per-ip, match: { user: { exists: true } }, key: [address], limit: 100 per day }
  - { name: at-a-time, match: { user: { exists: true } }, key: [user], limit: { algorithm: concurrency, limit: 9, ttl: 1h } }
"""


def acl(page):
    words = indented_block(page, "ACL SETUSER tidegate").split()
    return [word.replace("PASSWORD", PASSWORD) for word in words]


def do_everything(server):
    """Uses every operation of Redis. None may fail."""
    about = {"domain": "api", "attributes": {"user": "ann", "address": "10.1.2.3"}}

    def post(base, path, **more):
        answer = requests.post(base + path, json={**about, **more}, timeout=DEADLINE_S)
        assert answer.status_code == 200 and not answer.json().get("degraded"), answer.text
        return answer.json()

    token = post(server.url, "/v1/acquire")["lease"]["token"]
    for path in ("/v1/renew", "/v1/release"):
        post(server.url, path, token=token)
    for path in ("/v1/check", "/v1/peek"):
        post(server.url, path)
    for path in ("/v1/refund", "/v1/reset"):
        post(server.admin, path)
    assert post(server.url, "/v1/check")["remaining"] == 4


def test_the_acl_user_may_do_all_that_is_needed(page, tidegate, redis_server, redis_replica):
    store = redis_server()
    redis_replica(store)
    store.ask(*acl(page))
    url = f"redis://tidegate:{PASSWORD}@{store.address}"
    server = tidegate(RULES, flags=["--store", url, "--store-timeout", "30s", "--store-wait-replicas", "1"])
    do_everything(server)
    store.ask("SCRIPT", "FLUSH")
    do_everything(server)
    assert store.ask("ACL", "LOG") == [], "Redis denied no command"


def test_the_acl_user_in_a_cluster(page, tidegate, redis_cluster):
    store = redis_cluster()
    for node in store.nodes:
        node.ask(*acl(page))
    url = store.url.replace("://", f"://tidegate:{PASSWORD}@")
    do_everything(tidegate(RULES, flags=["--store", url, "--store-timeout", "30s"]))
    assert all(node.ask("ACL", "LOG") == [] for node in store.nodes), "Redis denied no command"


def test_the_acl_user_may_do_nothing_else(page, redis_server):
    store = redis_server()
    store.ask(*acl(page))
    with store.client(username="tidegate", password=PASSWORD) as client:
        for command in (["FLUSHALL"], ["KEYS", "*"], ["CONFIG", "GET", "*"], ["GET", "tg:1{ann}x"], ["MGET", "other"]):
            with pytest.raises(Exception, match="(?i)permission"):
                client.execute_command(*command)


def test_a_key_that_is_not_tidegates_is_named(page, tidegate, redis_server):
    store = redis_server()
    server = tidegate(RULES, flags=["--store", store.url, "--store-timeout", "30s"])
    about = {"domain": "api", "attributes": {"user": "ann", "address": "10.1.2.3"}}
    assert requests.post(server.url + "/v1/check", json=about, timeout=DEADLINE_S).status_code == 200
    key = store.keys("tg:1{ann}*")[0]
    store.ask("DEL", key)
    store.ask("RPUSH", key, "something", "else")
    answer = requests.post(server.url + "/v1/peek", json=about, timeout=DEADLINE_S)
    assert answer.status_code == 503 and key in answer.text


def test_alerts_of_a_fleet(page, tmp_path, run, parts):
    path = tmp_path / "alerts.yaml"
    path.write_text(textwrap.dedent(re.search(r"^    groups:\n(?:(?:    .*)?\n)*", page.read_text(), re.M)[0]))
    checked = run(parts / "bin/promtool", "check", "rules", path)
    assert "SUCCESS" in checked.stdout and "0 rules found" not in checked.stdout


def test_settings_and_metrics_that_it_names_are_there(page, binary, run, tidegate, redis_server):
    text = page.read_text()
    flags = {name.replace("_", "-") for name in re.findall(r"^\| `(store\w*)`", text, re.M)}
    flags |= {name.replace("_", "-") for name in re.findall(r"^\| `store_cert`, `(store_key)`", text, re.M)}
    flags |= {flag.removeprefix("--") for flag in re.findall(r"--store[a-z-]*", text)}
    there = set(re.findall(r"--(store[a-z-]*)", run(binary, "serve", "--help").stdout))
    assert flags == there
    server = tidegate(RULES, flags=["--store", redis_server().url])
    said = requests.get(server.admin + "/metrics", timeout=DEADLINE_S).text
    named = {name.removesuffix("_bucket") for name in re.findall(r"tidegate_store_[a-z_]+", text)}
    assert named <= set(re.findall(r"^# TYPE (\S+)", said, re.M))
