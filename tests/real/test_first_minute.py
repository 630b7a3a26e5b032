"""`tidegate serve` as it comes: what it prints is to be copied, and shows a 200, then a 429."""

import os
import re
import shlex

import pytest
from harness.processes import Process
from harness.waiting import wait_for


@pytest.fixture
def printed(binary, tmp_path, stopping):
    """What a server without any settings but free ports prints."""
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
    """The printed command that begins with this word, on one line or several."""
    joined = printed.replace("\\\n", " ")
    return next(line.strip() for line in joined.splitlines() if re.match(rf"\s*(\$ )?{tool} ", line)).removeprefix("$ ")


def repeated(run, shell, is_over):
    """Runs the command until it shows that it is over, and says how often it was not before."""
    for count in range(100):
        ended = run("bash", "-c", shell, code=None)
        if is_over(ended):
            return count
    raise AssertionError(f"never over: {shell}\n{ended.stdout}\n{ended.stderr}")


def test_addresses_one_per_line(printed):
    for protocol in ("http", "grpc", "resp", "admin"):
        assert re.search(rf"^\s*{protocol}\s+127\.0\.0\.1:[1-9][0-9]*$", printed, re.M), printed


def test_curl(printed, run):
    shell = command(printed, "curl")
    ended = run("bash", "-c", shell)
    assert "200" in ended.stdout and "429" not in ended.stdout, ended.stdout
    passed = repeated(run, shell, lambda ended: "429" in ended.stdout)
    assert passed >= 0
    assert "429" in run("bash", "-c", shell).stdout


def test_redis_cli(printed, run):
    shell = command(printed, "redis-cli")
    first = run("bash", "-c", shell).stdout.split()
    assert first[0] in ("allowed", "0"), first
    repeated(run, shell, lambda ended: ended.stdout.split()[0] in ("denied", "1"))


def test_grpcurl_by_buf(printed, run, parts):
    """grpcurl's words in those of buf, which asks in the same way: over reflection."""
    words = shlex.split(command(printed, "grpcurl"))
    assert "-plaintext" in words
    body, address, method = words[words.index("-d") + 1], words[-2], words[-1]
    assert method.replace(".ShouldRateLimit", "/ShouldRateLimit").endswith("RateLimitService/ShouldRateLimit")
    buf = [parts / "venv/bin/buf", "curl", "--protocol", "grpc", "--http2-prior-knowledge", "-d", body]
    buf.append(f"http://{address}/{method}")
    shell = shlex.join(map(str, buf))
    assert '"OK"' in run("bash", "-c", shell).stdout
    repeated(run, shell, lambda ended: '"OVER_LIMIT"' in ended.stdout)
