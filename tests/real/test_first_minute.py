"""`tidegate serve` without settings prints commands to copy, which show a 200 and then a 429."""

import os
import re

import pytest
from harness.documents import grpcurl_by
from harness.processes import Process
from harness.waiting import wait_for


@pytest.fixture
def printed(binary, tmp_path, stopping):
    """The output of a server without settings, except for free ports."""
    ports = [part for name in ("http", "grpc", "resp", "admin") for part in (f"--{name}", "127.0.0.1:0")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    process = Process([binary, "serve", *ports], tmp_path / "tidegate", env=env, cwd=tmp_path)
    stopping.append(process)

    def complete():
        process.must_run()
        text = process.stdout()
        return text if all(word in text for word in ("curl ", "redis-cli ", "grpcurl ")) and text.endswith("\n") else None

    return wait_for("three commands are printed", complete)


def command(printed, tool):
    """The printed line with this tool in it."""
    lines = [line.strip() for line in printed.splitlines() if re.search(rf"\b{tool} ", line)]
    assert len(lines) == 1, printed
    return lines[0]


def test_addresses_one_per_line(printed):
    for protocol in ("http", "grpc", "resp", "admin"):
        assert re.search(rf"^{protocol} 127\.0\.0\.1:[1-9][0-9]*$", printed, re.M), printed


def test_curl(printed, run):
    shown = run("bash", "-c", command(printed, "curl")).stdout
    assert re.findall(r" (\d{3})$", shown, re.M) == ["200", "200", "200", "429"], shown


def test_redis_cli(printed, run):
    shown = run("bash", "-c", command(printed, "redis-cli")).stdout
    assert re.findall(r"^(allowed|denied)$", shown, re.M) == ["allowed"] * 3 + ["denied"], shown


def test_grpcurl(printed, run, parts):
    grpcurl = grpcurl_by(parts / "venv/bin/buf")
    shown = run("bash", "-c", grpcurl + command(printed, "grpcurl")).stdout
    assert re.findall(r'"overallCode": *"(\w+)"', shown) == ["OK"] * 3 + ["OVER_LIMIT"], shown


def test_the_readme_shows_what_is_printed(root, printed):
    shown = re.search(r"^```text\n(http 127.*?)^```$", (root / "README.md").read_text(), re.M | re.S)[1]
    ports = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=-p )\d+")
    assert ports.sub("PORT", printed) == ports.sub("PORT", shown)
