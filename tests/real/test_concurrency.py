"""Sixteen concurrent clients of three protocols on one key: exactly the limit is admitted."""

import threading

from harness.asking import CLIENTS
from harness.waiting import DEADLINE_S

LIMIT = 100
CLIENTS_AT_ONCE = 16
REQUESTS_EACH = 25

# The windows are so long that no unit comes back during the test.
LIMITS = {
    "fixed_window": "{ limit: 100, per: 100d, algorithm: fixed_window }",
    "fixed_window_first_hit": "{ limit: 100, per: 1d, algorithm: fixed_window, align: first_hit }",
    "sliding_log": "{ limit: 100, per: 1d, algorithm: sliding_log }",
    "sliding_window": "{ limit: 100, per: 100d, algorithm: sliding_window }",
    "sub_windows": "{ limit: 100, per: 100d, algorithm: sub_windows }",
    "token_bucket": "{ limit: 100, per: 100d, algorithm: token_bucket }",
    "gcra": "{ limit: 100, per: 100d, algorithm: gcra }",
    # One leaves immediately, the others wait.
    "leaky_bucket": "{ limit: 100, per: 100d, algorithm: leaky_bucket, queue: 99 }",
    "concurrency": "{ limit: 100, algorithm: concurrency, ttl: 1h }",
}

RULES = "domain: api\nrules:\n" + "".join(
    f"  - {{ name: {name}, match: {{ by: {name} }}, key: [user], limit: {limit} }}\n" for name, limit in LIMITS.items()
)

ALLOWED = {"allowed", "delayed"}


def all_at_once(clients, ask):
    """The answers of all clients, which start together."""
    gate, answers, failures = threading.Barrier(len(clients)), [], []

    def work(client):
        try:
            gate.wait(DEADLINE_S)
            for _ in range(REQUESTS_EACH):
                answers.append((client.protocol, ask(client)))
        except Exception as failure:
            failures.append(f"{client.protocol}: {failure!r}")

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return answers


def test_admitted_is_the_limit_exactly(tidegate, closing):
    server = tidegate(RULES)
    clients = [closing(CLIENTS[number % len(CLIENTS)](server)) for number in range(CLIENTS_AT_ONCE)]
    for name in LIMITS:
        answers = all_at_once(clients, lambda client, name=name: client.check("api", {"by": name, "user": "ann"}))
        assert len(answers) == CLIENTS_AT_ONCE * REQUESTS_EACH
        admitted = [protocol for protocol, answer in answers if answer in ALLOWED]
        assert len(admitted) == LIMIT, f"{name}: {len(admitted)}"


def test_costs_add_up_to_the_limit(tidegate, closing):
    server = tidegate(RULES)
    clients = [closing(CLIENTS[number % len(CLIENTS)](server)) for number in range(CLIENTS_AT_ONCE)]
    answers = all_at_once(clients, lambda client: client.check("api", {"by": "gcra", "user": "bob"}, cost=7))
    assert sum(answer in ALLOWED for _, answer in answers) == LIMIT // 7


def test_two_limits_are_charged_together_or_not_at_all(tidegate, closing):
    rules = """
domain: api
rules:
  - { name: user, match: { team: { exists: true } }, key: [user], limit: { limit: 40, per: 100d, algorithm: gcra } }
  - { name: team, match: { team: { exists: true } }, key: [team], limit: { limit: 100, per: 100d, algorithm: fixed_window } }
"""
    server = tidegate(rules)
    clients = [closing(CLIENTS[number % len(CLIENTS)](server)) for number in range(CLIENTS_AT_ONCE)]
    users = [f"user-{number % 4}" for number in range(CLIENTS_AT_ONCE)]
    by = dict(zip(map(id, clients), users, strict=True))
    answers = all_at_once(clients, lambda client: client.check("api", {"user": by[id(client)], "team": "red"}))
    # Four users with 40 each want 160, but the team has 100. A request that the team's limit denies is not charged.
    assert sum(answer in ALLOWED for _, answer in answers) == 100
    left = [
        server.check({"user": f"user-{number}", "team": "blue"}, domain="api", path="/v1/peek", cost=0).json()["limits"]
        for number in range(4)
    ]
    used = sum(40 - limit["remaining"] for limits in left for limit in limits if limit["rule"] == "user")
    assert used == 100
