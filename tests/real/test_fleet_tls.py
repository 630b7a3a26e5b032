"""Redis over TLS, with users and passwords."""

import pytest
from harness.certificates import Authority
from harness.fleet import all_at_once, rule, rules
from test_fleet_start import refused  # noqa: F401

LIMIT = 40
RULES = rules(rule("strict", f"{{ limit: {LIMIT}, per: 100d }}", on_store_failure="deny"))


@pytest.fixture
def authority(tmp_path):
    directory = tmp_path / "certificates"
    directory.mkdir()
    return Authority(directory)


@pytest.fixture
def encrypted(redis_server, authority):
    return redis_server(tls=authority.sign("redis"), authority=authority.path)


def assert_is_exact(running, closing):
    clients = [closing(client) for client in running.clients(16)]
    answers = all_at_once(clients, 5, lambda client, _: client.ask({"by": "strict", "user": "ann"}))
    undecided = sum(answer.status == 503 for answer in answers)
    assert LIMIT - undecided <= sum(answer.passes for answer in answers) <= LIMIT
    assert undecided < LIMIT / 2


def test_with_the_authority_that_is_named(fleet, encrypted, authority, closing):
    running = fleet(RULES, encrypted.url, flags=["--store-ca", authority.path])
    assert_is_exact(running, closing)


def test_as_a_user_with_a_password(fleet, encrypted, authority, closing):
    # Special characters of a password are percent-encoded in the URL.
    encrypted.ask("ACL", "SETUSER", "tide", "on", ">p@ss/word:1", "~fleet:*", "&*", "+@all")
    url = f"rediss://tide:p%40ss%2Fword%3A1@{encrypted.address}"
    running = fleet(RULES, url, servers=2, flags=["--store-ca", authority.path, "--store-namespace", "fleet"])
    assert_is_exact(running, closing)
    for server in running.servers:
        said = server.process.stdout() + server.process.stderr()
        assert "p@ss" not in said and "p%40ss" not in said


def test_a_certificate_that_nobody_vouches_for(refused, encrypted, tmp_path):  # noqa: F811
    said = refused(encrypted.url)
    assert "certificate" in said and "CA file" in said
    directory = tmp_path / "stranger"
    directory.mkdir()
    said = refused(encrypted.url, "--store-ca", Authority(directory, "stranger").path)
    assert "certificate" in said


def test_in_the_clear_to_who_speaks_tls_and_the_reverse(refused, encrypted, authority, redis_server):  # noqa: F811
    # Neither side answers, so the store seems to be away.
    assert "rediss://" in refused(f"redis://{encrypted.address}", "--store-required")
    plain = redis_server()
    assert plain.address in refused(f"rediss://{plain.address}", "--store-required", "--store-ca", authority.path)
