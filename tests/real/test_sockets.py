"""TLS, client certificates and Unix sockets, with curl, redis-cli, redis-py and grpcio."""

import tempfile

import grpc
import pytest
from harness.asking import redis_client
from harness.certificates import Authority
from harness.waiting import DEADLINE_S

RULES = """
domain: api
rules:
  - { name: per-user, key: [user], limit: 3 per hour }
"""
BODY = '{"domain": "api", "attributes": {"user": "ann"}}'
TLS = "tls:127.0.0.1:0"


@pytest.fixture
def authority(tmp_path):
    directory = tmp_path / "certificates"
    directory.mkdir()
    return Authority(directory)


def encrypted(tidegate, authority, *flags):
    certificate, key = authority.sign("server")
    return tidegate(
        RULES,
        addresses={"http": TLS, "grpc": TLS, "resp": TLS},
        flags=["--tls-cert", certificate, "--tls-key", key, "--reload-every", "50ms", *flags],
    )


def health(server, credentials):
    """The health of a server over gRPC: two bytes if it serves."""
    with grpc.secure_channel(f"127.0.0.1:{server.port('grpc')}", credentials) as channel:
        return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=DEADLINE_S)


def test_tls(tidegate, authority, run):
    server = encrypted(tidegate, authority)
    url = f"https://127.0.0.1:{server.port('http')}/v1/check"
    curl = ["curl", "-sS", "--cacert", authority.path, "-o", "/dev/null", "-w", "%{http_code}", "-d", BODY, url]
    assert [run(*curl).stdout for _ in range(4)] == ["200", "200", "200", "429"]

    cli = ["redis-cli", "-p", server.resp_port, "--tls", "--cacert", authority.path]
    assert run(*cli, "TIDEGATE.CHECK", "api", "user", "ann").stdout.startswith("denied\n")
    with redis_client(port=server.resp_port, ssl=True, ssl_ca_certs=str(authority.path)) as client:
        assert client.ping() is True

    assert health(server, grpc.ssl_channel_credentials(authority.path.read_bytes())) == b"\x08\x01"


def test_only_clients_with_a_certificate(tidegate, authority, run):
    server = encrypted(tidegate, authority, "--tls-client-ca", authority.path)
    certificate, key = authority.sign("client")
    url = f"https://127.0.0.1:{server.port('http')}/readyz"
    curl = ["curl", "-sS", "--cacert", authority.path]
    assert run(*curl, url, code=None).returncode != 0
    run(*curl, "--cert", certificate, "--key", key, url)

    strangers = authority.directory / "strangers"
    strangers.mkdir()
    certificate_of_another, key_of_another = Authority(strangers, "stranger").sign("client")
    ended = run(*curl, "--cert", certificate_of_another, "--key", key_of_another, url, code=None)
    assert ended.returncode != 0

    cli = ["redis-cli", "-p", server.resp_port, "--tls", "--cacert", authority.path]
    assert "PONG" not in run(*cli, "PING", code=None).stdout
    assert run(*cli, "--cert", certificate, "--key", key, "PING").stdout == "PONG\n"

    root = authority.path.read_bytes()
    known = grpc.ssl_channel_credentials(root, key.read_bytes(), certificate.read_bytes())
    assert health(server, known) == b"\x08\x01"
    with pytest.raises(grpc.RpcError):
        health(server, grpc.ssl_channel_credentials(root))


def test_unix_sockets(tidegate, run):
    # The path of a socket has at most about a hundred characters, and pytest's directories are deep.
    with tempfile.TemporaryDirectory(prefix="tidegate-") as directory:
        paths = {name: f"{directory}/{name}" for name in ("http", "grpc", "resp")}
        server = tidegate(RULES, addresses={name: f"unix:{path}" for name, path in paths.items()})
        curl = ["curl", "-sS", "--unix-socket", paths["http"], "-o", "/dev/null", "-w", "%{http_code}", "-d", BODY]
        assert [run(*curl, "http://tidegate/v1/check").stdout for _ in range(4)] == ["200", "200", "200", "429"]
        said = run("redis-cli", "-s", paths["resp"], "TIDEGATE.CHECK", "api", "user", "ann").stdout
        assert said.startswith("denied\n")
        with redis_client(unix_socket_path=paths["resp"]) as client:
            assert client.ping() is True
        # By default this client sends the percent-encoded path as the authority, which h2 rejects.
        authority = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel("unix:" + paths["grpc"], options=authority) as channel:
            assert channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=DEADLINE_S) == b"\x08\x01"
        assert server.stop() == 0
        server.restart()
        assert run(*curl, "http://tidegate/v1/check").stdout == "200", "it starts again on the same paths"
        assert server.stop() == 0
