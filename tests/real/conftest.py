"""Fixtures. Each stops what it started, even if the test fails."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from harness.asking import CLIENTS, OverGrpc  # noqa: E402
from harness.envoy import Envoy, config  # noqa: E402
from harness.fault_proxy import FaultProxy  # noqa: E402
from harness.fleet import Fleet  # noqa: E402
from harness.redis_cluster import RedisCluster  # noqa: E402
from harness.redis_sentinel import SentinelSet  # noqa: E402
from harness.redis_server import RedisServer, replica_of  # noqa: E402
from harness.tidegate import Tidegate  # noqa: E402
from harness.upstream import Upstream  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]


def pytest_addoption(parser):
    parser.addoption("--tidegate", required=True, help="the binary to test")
    parser.addoption("--parts", required=True, help="the directory of scripts/install-test-parts")
    parser.addoption(
        "--stopped-for", type=float, default=10, metavar="SECONDS", help="how long Redis hangs under load; 60 for a thorough run"
    )
    parser.addoption("--differential-seed", type=int, help="which random files test_envoy_ratelimit.py uses")
    parser.addoption(
        "--differential-files", type=int, default=25, metavar="COUNT", help="how many of them; 1000 for a thorough run"
    )


@pytest.fixture(scope="session")
def root():
    """The root directory of the project."""
    return ROOT


@pytest.fixture(scope="session")
def parts(request):
    return pathlib.Path(request.config.getoption("--parts")).resolve()


@pytest.fixture(scope="session")
def binary(request):
    return pathlib.Path(request.config.getoption("--tidegate")).resolve()


@pytest.fixture
def stopping():
    """Appended objects are stopped at the end, the last one first."""
    started = []
    yield started
    failures = []
    for each in reversed(started):
        try:
            each.stop()
        except Exception as failure:  # Stop the others too.
            failures.append(failure)
    assert not failures


@pytest.fixture
def tidegate(binary, tmp_path, closing, stopping):
    """Starts servers: tidegate(rules, flags=[...])."""
    count = 0

    def start(rules=None, **more):
        nonlocal count
        count += 1
        directory = tmp_path / f"server-{count}"
        directory.mkdir()
        server = Tidegate(binary, directory, rules, **more)
        stopping.append(server)
        closing(server)
        return server

    return start


@pytest.fixture
def fleet(tidegate):
    """Starts servers that share a store: fleet(rules, url). The options apply to each server."""

    def start(rules, url, *, servers=4, timeout="1s", flags=(), envs=(), **more):
        envs = [*envs, *[None] * (servers - len(envs))]
        flags = ["--store", url, "--store-timeout", timeout, *flags]
        return Fleet([tidegate(rules, flags=flags, env=env, **more) for env in envs])

    return start


@pytest.fixture
def kept(tmp_path, closing, stopping):
    """Starts an object with its own directory and stops it at the end: kept(Kind, ...)."""
    count = 0

    def start(kind, *arguments, **more):
        nonlocal count
        count += 1
        directory = tmp_path / f"part-{count}"
        directory.mkdir()
        started = kind(*arguments, directory, **more)
        stopping.append(started)
        return closing(started)

    return start


@pytest.fixture
def redis_server(kept, parts):
    """Starts a Redis: redis_server(program="valkey-server-9.1", requirepass="x", ...)."""

    def start(program="redis-server", **options):
        return kept(RedisServer, program=parts / "bin" / program, **options)

    return start


@pytest.fixture
def redis_replica(kept, parts):
    """Starts a replica of a Redis server."""
    return lambda master, **options: kept(replica_of, master, program=parts / "bin/redis-server", **options)


@pytest.fixture
def redis_cluster(kept, parts):
    return lambda **more: kept(RedisCluster, program=parts / "bin/redis-server", **more)


@pytest.fixture
def sentinel_set(kept, parts):
    return lambda **more: kept(SentinelSet, program=parts / "bin/redis-server", **more)


@pytest.fixture
def fault_proxy(stopping):
    """A link to a server that can be made to fail: fault_proxy(server)."""

    def start(server):
        proxy = FaultProxy(server.port)
        stopping.append(proxy)
        return proxy

    return start


@pytest.fixture
def upstream(stopping):
    server = Upstream()
    stopping.append(server)
    return server


@pytest.fixture
def envoy(parts, tmp_path, upstream, stopping):
    """Starts Envoy in front of the upstream: envoy(server, rate_limits, ...), see harness.envoy.config."""
    count = 0

    def start(server, rate_limits, **more):
        nonlocal count
        count += 1
        directory = tmp_path / f"envoy-{count}"
        directory.mkdir()
        settings = config(directory, server.port("grpc"), upstream.port, rate_limits, **more)
        running = Envoy(parts / "venv/bin/envoy", directory, settings)
        stopping.append(running)
        return running

    return start


@pytest.fixture
def rls(closing):
    """A client of the rate limit service: rls(server)."""
    return lambda server: closing(OverGrpc(server))


@pytest.fixture
def clients(closing):
    """One client of each protocol: clients(server)."""
    return lambda server: [closing(kind(server)) for kind in CLIENTS]


@pytest.fixture
def closing():
    opened = []

    def keep(client):
        opened.append(client)
        return client

    yield keep
    for client in opened:
        client.close()


@pytest.fixture
def run():
    """Runs a command to its end. Shows its output if the exit code is not the expected one."""

    def run(*command, code=0, **more):
        ended = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=600, check=False, **more
        )
        if code is not None and ended.returncode != code:
            raise AssertionError(f"{command} exited with {ended.returncode}\n{ended.stdout}\n{ended.stderr}")
        return ended

    return run
