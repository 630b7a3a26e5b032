"""Runs commands and settings of the documentation, with other ports."""

import re
import subprocess

import pytest
import requests
from harness.documents import grpcurl_by, indented_block, on_free_ports, rules_of, sessions, shell_blocks
from harness.envoy import Envoy
from harness.waiting import DEADLINE_S

# All `sh` blocks of a page run in order against one server with the rules of the page. The number is the minimum of
# blocks: a test that finds no blocks must fail.
PAGES = [("docs/http.md", 10), ("docs/overrides.md", 10)]

PER_USER = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 10 per second }
"""


@pytest.mark.parametrize(("page", "least"), PAGES, ids=[page for page, _ in PAGES])
def test_commands_can_be_copied(root, binary, tidegate, tmp_path, run, page, least):
    path = root / page
    server = tidegate(rules_of(path))
    blocks = list(shell_blocks(path))
    assert len(blocks) >= least
    for line, block in blocks:
        shell = f"export TIDEGATE_ADMIN={server.admin} PATH={binary.parent}:$PATH\n" + on_free_ports(block, server)
        # No pipefail: a reader that closes early makes the writer fail.
        ended = run("bash", "-eu", "-c", shell, code=None, cwd=tmp_path)
        assert ended.returncode == 0, f"{page}:{line}\n{shell}\n{ended.stdout}\n{ended.stderr}"
        # curl exits with 0 even for an error status, so look for one in the output.
        assert not re.search(r'"status": ?(4(?!29)|5)\d\d', ended.stdout), f"{page}:{line}\n{ended.stdout}"


def test_sessions_with_redis_cli_are_as_shown(root, tidegate, run):
    server = tidegate(PER_USER)
    shown = sessions(root / "docs/resp.md")
    assert len(shown) >= 2
    for command, lines in shown:
        shell = on_free_ports(command, server).replace("redis-cli", "redis-cli --no-raw")
        assert run("bash", "-c", shell).stdout.split("\n")[:-1] == lines, command


def test_the_answer_in_the_readme(root, tidegate, run):
    session = re.search(r"^\$ (curl .*)\n(HTTP.*\n(?:[a-z-]+: .*\n)+)", (root / "README.md").read_text(), re.M)
    command, shown = session.groups()
    server = tidegate()
    for _ in range(4):
        output = run("bash", "-c", on_free_ports(command, server)).stdout
    # Times count down during the test.
    times = re.compile(r"^((?:x-ratelimit-)?(?:retry-after|reset): |ratelimit: .*;t=)\d+$", re.M)
    assert times.sub(r"\1N", output.replace("\r", "")) == times.sub(r"\1N", shown)


def test_grpcurl_as_documented(root, tidegate, run, parts):
    server = tidegate(PER_USER)
    command = on_free_ports(indented_block(root / "docs/rls.md", "grpcurl "), server)
    assert '"OK"' in run("bash", "-c", grpcurl_by(parts / "venv/bin/buf") + command).stdout


def test_the_documented_settings_of_envoy(root, tidegate, upstream, stopping, parts, tmp_path):
    """The page has three pieces, each with the place where it belongs."""
    rules = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 2 per hour }
"""
    server = tidegate(rules)
    block = on_free_ports(indented_block(root / "docs/rls.md", "http_filters:"), server)
    # A busy machine may need longer than the recommended 20 ms.
    assert "timeout: 0.02s" in block
    block = block.replace("timeout: 0.02s", "timeout: 3600s")
    filters, rest = re.split(r"^# in a route or a virtual host:\n", block, flags=re.M)
    rate_limits, clusters = re.split(r"^# in clusters:\n", rest, flags=re.M)
    pieces = {
        "FILTERS": filters.removeprefix("http_filters:\n"),
        "RATE_LIMITS": rate_limits,
        "CLUSTERS": clusters,
        "UPSTREAM_PORT": str(upstream.port),
    }
    text = ENVOY
    for name, piece in pieces.items():
        indentation = re.search(rf"^( *)(.*){name}", text, re.M)
        lines = piece.rstrip("\n").split("\n")
        text = text.replace(name, ("\n" + indentation[1]).join(lines))
    edge = Envoy(parts / "venv/bin/envoy", tmp_path, text)
    stopping.append(edge)

    def status():
        return requests.get(edge.url, headers={"x-user": "ann"}, timeout=DEADLINE_S).status_code

    assert [status() for _ in range(3)] == [200, 200, 429]


ENVOY = """
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
  - name: edge
    address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          http_filters:
          FILTERS
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [ { match: { prefix: / }, route: { cluster: upstream } } ]
              RATE_LIMITS
  clusters:
  - name: upstream
    type: STATIC
    load_assignment:
      cluster_name: upstream
      endpoints: [ { lb_endpoints: [ { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: UPSTREAM_PORT } } } } ] } ]
  CLUSTERS
"""


def test_the_example_of_settings_starts_a_server(root, tidegate, tmp_path):
    """The file that docs/server.md names, on other ports."""
    example = root / "examples/server/tidegate.yaml"
    assert example.exists()
    copy = tmp_path / "example"
    subprocess.run(["cp", "-r", str(root / "examples"), str(copy)], check=True, timeout=DEADLINE_S)
    server = tidegate(flags=["--config", copy / "server/tidegate.yaml", "--data-dir", tmp_path / "data"])
    assert server.is_ready()
