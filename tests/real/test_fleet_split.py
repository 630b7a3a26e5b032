"""Requests whose limits are on different Redis servers: all limits are charged, or none, or refunded."""

import threading

import pytest
from harness.fleet import OverConnection, all_at_once, rule, rules
from harness.waiting import wait_for

CLIENTS_AT_ONCE = 32
REQUESTS_EACH = 8
USERS = [f"user-{number}" for number in range(4)]

TOGETHER = rules(
    rule("user", "{ limit: 40, per: 100d, algorithm: gcra }", match="{ team: { exists: true } }", on_store_failure="deny"),
    rule(
        "team",
        "{ limit: 100, per: 100d, algorithm: fixed_window }",
        match="{ team: { exists: true } }",
        key="[team]",
        on_store_failure="deny",
    ),
)


@pytest.mark.parametrize("kind", ["single", "cluster"])
def test_two_limits_are_charged_together_or_not_at_all(fleet, redis_server, redis_cluster, closing, kind):
    """The keys of user and team are in different slots of a cluster: one is charged, and refunded if the other denies."""
    store = redis_server() if kind == "single" else redis_cluster()
    running = fleet(TOGETHER, store.url)
    clients = [closing(client) for client in running.clients(CLIENTS_AT_ONCE)]

    def ask(client, number):
        return client.ask({"user": USERS[number % len(USERS)], "team": "red"}).passes

    # Four users with 40 each want 160, but the team has 100.
    admitted = sum(all_at_once(clients, REQUESTS_EACH, ask))
    if kind == "cluster":
        # While a refund is pending, requests may be denied that would pass later.
        assert admitted <= 100

        def is_over():
            nonlocal admitted
            passes = [clients[0].ask({"user": user, "team": "red"}).passes for user in USERS]
            admitted += sum(passes)
            return not any(passes) and used(running, "team", {"user": "nobody", "team": "red"}) == 100

        wait_for("the team has used its limit", is_over)
    lost = running.undecided()
    assert 100 - lost <= admitted <= 100
    # A user is not charged for a request that the team's limit denied.
    wait_for(
        "all refunds are done",
        lambda: admitted
        <= sum(used(running, "user", {"user": user, "team": "blue"}) for user in USERS)
        <= admitted + lost,
    )


def used(running, rule_name, attributes):
    """How much of a limit is used. Retries a peek that the store does not answer in time."""
    limits = wait_for("the store answers", lambda: peeked(running.servers[-1], attributes))
    full = {"user": 40, "team": 100}[rule_name]
    return sum(full - limit["remaining"] for limit in limits if limit["rule"] == rule_name)


def peeked(server, attributes):
    return server.check(attributes, domain="api", path="/v1/peek", cost=0).json().get("limits")


def test_a_server_that_dies_in_between_costs_what_it_had_charged(fleet, redis_cluster, closing):
    """The user is charged, the team's Redis server hangs, and the node that would refund is killed: one unit is lost."""
    cluster = redis_cluster(node_timeout_ms=20_000)
    running = fleet(TOGETHER, cluster.url, servers=2, timeout="60s")
    doomed, other = running.servers
    assert other.check({"user": "scout", "team": "red"}, domain="api").status_code == 200
    # A user whose key is not on the server of the team's key.
    teams = cluster.master_of("{red}")
    user = next(name for name in (f"user-{n}" for n in range(100)) if cluster.master_of(f"{{{name}}}") is not teams)
    users = cluster.master_of(f"{{{user}}}")
    assert any("{red}" in name for name in teams.keys()), teams.keys()

    teams.pause()
    client = closing(OverConnection(doomed))
    asking = threading.Thread(target=lambda: pytest.raises(OSError, client.ask, {"user": user, "team": "red"}))
    asking.start()
    wait_for("the user is charged", lambda: any(f"{{{user}}}" in name for name in users.keys()))
    doomed.process.kill()
    asking.join()
    teams.resume()

    # The server that hung may still read the request of the killed node.
    assert used(running, "team", {"user": "nobody", "team": "red"}) in (1, 2)
    assert used(running, "user", {"user": user, "team": "blue"}) == 1
    clients = [closing(client) for client in (OverConnection(other), OverConnection(other))]
    passed = all_at_once(clients, 25, lambda client, _: client.ask({"user": user, "team": "red"}).passes)
    assert sum(passed) == 39, "one of forty is lost"


def test_what_is_charged_before_a_failure_is_given_back(fleet, redis_cluster):
    """The team's Redis server hangs beyond the timeout. The user is not charged for the request that did not pass."""
    cluster = redis_cluster(node_timeout_ms=20_000)
    running = fleet(TOGETHER, cluster.url, servers=1, timeout="300ms")
    [server] = running.servers
    teams = cluster.master_of("{red}")
    # Their keys are not on the server of that team's key.
    user = next(name for name in (f"user-{n}" for n in range(100)) if cluster.master_of(f"{{{name}}}") is not teams)
    near = next(name for name in (f"team-{n}" for n in range(100)) if cluster.master_of(f"{{{name}}}") is not teams)
    teams.pause()
    answer = server.check({"user": user, "team": "red"}, domain="api")
    assert answer.status_code == 503, answer.text
    wait_for("the user is refunded", lambda: used(running, "user", {"user": user, "team": near}) == 0)
    teams.resume()
