"""Envoy while Tidegate is down, restarts, or reloads its rules."""

import threading

import pytest
import requests
from harness.envoy import descriptor
from harness.waiting import DEADLINE_S, wait_for

RULES = """
domain: edge
rules:
  - name: per-user
    match: {{ user: {{ exists: true }} }}
    key: [user]
    limit: {{ limit: {limit}, per: 1d, algorithm: fixed_window, align: first_hit }}
"""


def stands(server):
    return server.stands({"user": "ann"}, domain="edge")


def status(envoy, user):
    return requests.get(envoy.url, headers={"x-user": user}, timeout=DEADLINE_S).status_code


@pytest.mark.parametrize(
    ("settings", "while_away"),
    [
        ({"failure_mode_deny": False}, 200),
        ({"failure_mode_deny": True}, 500),
        ({"failure_mode_deny": True, "status_on_error": {"code": "ServiceUnavailable"}}, 503),
    ],
)
def test_envoys_failure_mode_while_tidegate_is_down_and_recovery(tidegate, envoy, tmp_path, settings, while_away):
    server = tidegate(RULES.format(limit=3), flags=["--data-dir", tmp_path / "data"], keeps_ports=True)
    edge = envoy(server, [descriptor("user")], ratelimit=settings)
    assert [status(edge, "ann") for _ in range(2)] == [200, 200]

    assert server.stop() == 0
    assert [status(edge, "ann") for _ in range(4)] == [while_away] * 4
    assert edge.counter("upstream.ratelimit.error") >= 4, "Envoy counts the failed calls"

    server.restart()
    # Envoy reconnects by itself. Nothing was charged meanwhile, and the counters from before are kept.
    errors = edge.counter("upstream.ratelimit.error")
    wait_for("Envoy asks again", lambda: status(edge, "bob") and edge.counter("upstream.ratelimit.ok") > 2)
    assert [status(edge, "ann") for _ in range(2)] == [200, 429]
    assert edge.counter("upstream.ratelimit.error") >= errors


def test_rules_are_replaced_under_traffic(tidegate, envoy):
    server = tidegate(RULES.format(limit=100_000), flags=["--reload-every", "50ms"])
    edge = envoy(server, [descriptor("user")], ratelimit={"failure_mode_deny": True})
    stop, seen = threading.Event(), ([], [])

    def traffic(answers):
        session = requests.Session()
        while not stop.is_set():
            answers.append(session.get(edge.url, headers={"x-user": "ann"}, timeout=DEADLINE_S).status_code)

    def count():
        return sum(map(len, seen))

    threads = [threading.Thread(target=traffic, args=(answers,)) for answers in seen]
    for thread in threads:
        thread.start()
    try:
        # Wait for these numbers of requests, so that there is traffic before, during and after each change.
        wait_for("there is traffic", lambda: count() >= 50)
        for limit in (200_000, 300_000, 250_000):
            before = count()
            server.rules.write_text(RULES.format(limit=limit))
            wait_for(f"a limit of {limit} is active", lambda limit=limit: stands(server)[0] == limit)
            wait_for("there is more traffic", lambda before=before: count() >= before + 50)
        assert set(seen[0] + seen[1]) == {200}
        # Less than already used, so all requests are denied: a reload gives no fresh window.
        server.rules.write_text(RULES.format(limit=20))
        wait_for("both clients are denied", lambda: all(429 in answers for answers in seen))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for answers in seen:
        # Each client sends one request at a time, so after the first denial all are denied. No request failed.
        first = answers.index(429)
        assert set(answers[:first]) == {200} and set(answers[first:]) == {429}
