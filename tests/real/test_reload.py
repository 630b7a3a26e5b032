"""Rules that change while requests come in over every protocol."""

import os
import signal

import requests
from harness.tidegate import Tidegate
from harness.traffic import Traffic
from harness.waiting import DEADLINE_S, wait_for

RULES = """
domain: api
rules:
  - name: per-user
    key: [user]
    limit: {{ limit: {limit}, per: 1d, algorithm: fixed_window, align: first_hit }}
"""
BAD = "domain: api\nrules:\n  - name: per-user\n    limits:\n      - limit: 5 per minut\n"


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


def test_a_bad_file_is_reported_and_the_last_good_rules_go_on(tidegate):
    server = tidegate(RULES.format(limit=1_000_000), flags=["--reload-every", "50ms"])
    with Traffic(server, ask) as traffic:
        traffic.more(20)
        # In one go, for a file that is half written is bad as well, and would be reported before.
        replace(server.rules, BAD)
        wait_for("the log says so", lambda: "5 per minut" in server.process.stderr())
        health = wait_for("/healthz?verbose says so", lambda: told(server, "minut"))
        assert "rules.yaml" in health
        assert server.metric("tidegate_reloads_total", result="refused") == 1
        assert requests.get(server.url + "/healthz", timeout=DEADLINE_S).status_code == 200
        assert server.is_ready(), "the rules before are in force"
        traffic.more(20)
        assert stands(server)[0] == 1_000_000

        server.rules.write_text(RULES.format(limit=700_000))
        is_in_force(server, 700_000)
        wait_for("all is well again", lambda: not told(server, "minut"))
        traffic.more(20)
    assert not traffic.failures
    assert set(traffic.all()) == {"allowed"}
    assert stands(server) == (700_000, len(traffic.all()))


def told(server, text):
    said = requests.get(server.url + "/healthz?verbose", timeout=DEADLINE_S).text
    return said if text in said else None


def test_sighup_at_once(tidegate):
    # Nobody looks at the files by themselves while this runs.
    server = tidegate(RULES.format(limit=1_000_000), flags=["--reload-every", "24h"])
    with Traffic(server, ask) as traffic:
        traffic.more(20)
        server.rules.write_text(RULES.format(limit=900_000))
        server.process.signal(signal.SIGHUP)
        is_in_force(server, 900_000)
        traffic.more(20)
        server.rules.write_text(BAD)
        server.process.signal(signal.SIGHUP)
        wait_for("/healthz?verbose says so", lambda: told(server, "minut"))
        traffic.more(20)
    assert not traffic.failures
    assert stands(server) == (900_000, len(traffic.all()))


def test_without_being_told_how_often(tidegate):
    """It is to be within five seconds, and is within one or two; but a machine can be slower than that, and is not tested."""
    server = tidegate(RULES.format(limit=1_000))
    server.rules.write_text(RULES.format(limit=2_000))
    is_in_force(server, 2_000)


def test_a_directory_of_rules(binary, tmp_path, stopping):
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "api.yaml").write_text(RULES.format(limit=1))
    server = Tidegate(binary, tmp_path, flags=["--rules", rules, "--reload-every", "50ms"])
    stopping.append(server)
    assert [server.check({"user": "a"}, domain="api").status_code for _ in range(2)] == [200, 429]
    assert server.check({"user": "a"}, domain="shop").status_code == 200, "nobody limits this yet"
    (rules / "shop.yml").write_text(RULES.format(limit=0).replace("domain: api", "domain: shop"))
    wait_for("the new file is in force", lambda: server.check({"user": "a"}, domain="shop").status_code == 429)
    assert server.check({"user": "a"}, domain="api").status_code == 429, "the others go on as they were"
    (rules / "shop.yml").unlink()
    wait_for("the file is gone", lambda: server.check({"user": "a"}, domain="shop").status_code == 200)


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
