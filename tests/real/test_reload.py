"""Rules that change while requests come in over every protocol."""

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
    """The limit in force, and how much of it was used."""
    return server.stands({"user": "ann"}, domain="api")


def replace(path, text):
    """Puts another file in the place of this one."""
    other = path.with_suffix(".new")
    other.write_text(text)
    os.replace(other, path)


def is_in_force(server, limit):
    wait_for(f"a limit of {limit} is in force", lambda: stands(server)[0] == limit)


def test_under_traffic_nothing_fails_and_nothing_is_forgotten(tidegate):
    server = tidegate(RULES.format(limit=1_000_000), flags=["--reload-every", "50ms"])
    with Traffic(server, ask) as traffic:
        traffic.more(20)
        for limit in (2_000_000, 3_000_000, 500_000):
            server.rules.write_text(RULES.format(limit=limit))
            is_in_force(server, limit)
            traffic.more(20)
        # A file that is put in the other's place, as editors and config maps do it.
        replace(server.rules, RULES.format(limit=600_000))
        is_in_force(server, 600_000)
        traffic.more(20)
    assert not traffic.failures
    assert set(traffic.all()) == {"allowed"}
    assert stands(server) == (600_000, len(traffic.all())), "every request that was answered is counted, once"
    wait_for("all of them are counted", lambda: server.metric("tidegate_reloads_total", result="replaced") == 4)


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
        # Each client asks one at a time: once it is denied, it stays denied.
        first = answers.index("denied")
        assert set(answers[:first]) == {"allowed"} and set(answers[first:]) == {"denied"}
    # Of each client one answer may have been on its way.
    assert traffic.all().count("allowed") <= had + len(traffic.clients)


def test_a_directory_that_kubernetes_swaps(binary, tmp_path, stopping):
    """A config map is a link to a link to a directory, and all of it is replaced by one rename."""
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
