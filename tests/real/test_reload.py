"""Rules that change under traffic over every protocol."""

import os

from harness.tidegate import Tidegate
from harness.traffic import Traffic
from harness.waiting import wait_for

RULES = """
domain: api
rules:
  - name: per-user
    key: [user]
    limit: {{ limit: {limit}, per: 1d, algorithm: fixed_window, align: first_hit }}
"""


def ask(client):
    return client.check("api", {"user": "ann"})


def stands(server):
    """The active limit, and how much of it is used."""
    return server.stands({"user": "ann"}, domain="api")


def replace(path, text):
    """Replaces a file atomically."""
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


def is_in_force(server, limit):
    wait_for(f"a limit of {limit} is active", lambda: stands(server)[0] == limit)


def test_under_traffic_nothing_fails_and_nothing_is_forgotten(tidegate):
    server = tidegate(RULES.format(limit=1_000_000), flags=["--reload-every", "50ms"])
    with Traffic(server, ask) as traffic:
        traffic.more(20)
        for limit in (2_000_000, 3_000_000, 500_000):
            server.rules.write_text(RULES.format(limit=limit))
            is_in_force(server, limit)
            traffic.more(20)
        # An atomic replacement, as editors and config maps do it.
        replace(server.rules, RULES.format(limit=600_000))
        is_in_force(server, 600_000)
        traffic.more(20)
    assert not traffic.failures
    assert set(traffic.all()) == {"allowed"}
    assert stands(server) == (600_000, len(traffic.all())), "every answered request is counted once"
    wait_for("all reloads are counted", lambda: server.metric("tidegate_reloads_total", result="replaced") == 4)


def test_a_lower_limit_holds_at_once_for_what_was_used_before(tidegate):
    server = tidegate(RULES.format(limit=1_000_000), flags=["--reload-every", "50ms"])
    with Traffic(server, ask) as traffic:
        traffic.more(20)
        server.rules.write_text(RULES.format(limit=10))
        is_in_force(server, 10)
        had = len(traffic.all())
        traffic.more(20)
    assert not traffic.failures
    for answers in traffic.answers.values():
        # Each client sends one request at a time, so after the first denial all are denied.
        first = answers.index("denied")
        assert set(answers[:first]) == {"allowed"} and set(answers[first:]) == {"denied"}
    # One answer per client may have been in flight.
    assert traffic.all().count("allowed") <= had + len(traffic.clients)


def test_a_directory_that_kubernetes_swaps(binary, tmp_path, stopping):
    """A config map is a link to a link to a directory. One rename replaces all files."""
    rules = tmp_path / "rules"
    rules.mkdir()

    def publish(version, limit):
        (rules / f"..{version}").mkdir()
        (rules / f"..{version}" / "api.yaml").write_text(RULES.format(limit=limit))
        (rules / "..data_tmp").symlink_to(f"..{version}")
        os.replace(rules / "..data_tmp", rules / "..data")

    publish("first", 1_000)
    (rules / "api.yaml").symlink_to("..data/api.yaml")
    server = Tidegate(binary, tmp_path, flags=["--rules", rules, "--reload-every", "50ms"])
    stopping.append(server)
    assert server.check({"user": "ann"}, domain="api").status_code == 200
    publish("second", 2_000)
    is_in_force(server, 2_000)
    assert stands(server) == (2_000, 1)
