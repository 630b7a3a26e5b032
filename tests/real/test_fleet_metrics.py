"""What operators see of the store: metrics, log and health."""

import time

import requests
from harness.fleet import Load, all_at_once, rule, rules
from harness.waiting import DEADLINE_S, wait_for

RULES = rules(
    rule("hot", "{ limit: 10, per: 100d }"),
    rule("eager", "{ limit: 10, per: 100d }", deny_cache="false"),
    rule("strict", "{ limit: 10, per: 100d }", on_store_failure="deny"),
    rule("served", "{ limit: 1000000, per: 1h }"),
)


def test_metrics_of_the_store(fleet, redis_server, closing, run, parts):
    running = fleet(RULES, redis_server().url)
    running.wait_for_each_other()
    clients = [closing(client) for client in running.clients(32)]
    answers = all_at_once(clients, 10, lambda client, _: client.ask({"by": "hot", "user": "ann"}))
    assert sum(answer.passes for answer in answers) == 10
    assert running.metric("tidegate_store_plans_total") > 0
    assert 0 < running.metric("tidegate_store_calls_total") <= running.metric("tidegate_store_plans_total")
    known = running.metric("tidegate_store_deny_cache_hits_total")
    assert known > 0, "users over the limit are denied without asking the store"
    all_at_once(clients, 3, lambda client, _: client.ask({"by": "eager", "user": "ann"}))
    assert running.metric("tidegate_store_deny_cache_hits_total") == known, "except with deny_cache: false"

    page = requests.get(running.servers[0].admin + "/metrics", timeout=DEADLINE_S).text
    checked = run(parts / "bin/promtool", "check", "metrics", input=page)
    assert (checked.stdout, checked.stderr) == ("", ""), "promtool reports no problems"
    assert 'server="127.0.0.1:' in page and 'user=' not in page, "labels name servers, never keys"


def test_identical_requests_in_flight_share_calls(fleet, redis_server, fault_proxy, closing):
    """Requests that arrive during a call are batched into the next call."""
    proxy = fault_proxy(redis_server())
    running = fleet(RULES, proxy.url, servers=1)
    clients = [closing(client) for client in running.clients(32)]
    proxy.delays(20)
    before = running.metric("tidegate_store_calls_total"), running.metric("tidegate_store_plans_total")
    all_at_once(clients, 5, lambda client, _: client.ask({"by": "served", "user": "ann"}))
    calls = running.metric("tidegate_store_calls_total") - before[0]
    orders = running.metric("tidegate_store_plans_total") - before[1]
    assert orders >= 160
    assert calls <= orders / 2, (calls, orders)
    assert running.metric("tidegate_store_coalesced_total") > 0


def test_a_change_of_state_is_one_line_in_the_log(fleet, redis_server):
    store = redis_server()
    running = fleet(RULES, store.url, timeout="200ms")

    def ask(client, number):
        return client.ask({"by": "strict" if number % 2 else "served", "user": f"user-{number % 20}"})

    with Load(running, ask, clients=8) as load:
        load.more()
        lines = [len(server.process.stderr().splitlines()) for server in running.servers]
        store.pause()
        for server in running.servers:
            wait_for("the breaker is open", lambda server=server: server.metric("tidegate_store_breaker_open") == 1)
            health = requests.get(server.url + "/healthz?verbose", timeout=DEADLINE_S)
            assert health.status_code == 200 and "degraded" in health.text, health.text
            assert requests.get(server.url + "/readyz", timeout=DEADLINE_S).status_code == 200
        load.more()
        assert running.metric("tidegate_store_failures_total") > 0
        assert running.metric("tidegate_store_degraded_decisions_total", policy="local") > 0
        assert running.metric("tidegate_store_degraded_decisions_total", policy="deny") > 0
        store.resume()
        for server in running.servers:
            wait_for("the breaker is closed", lambda server=server: server.metric("tidegate_store_breaker_open") == 0)
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    for server, before in zip(running.servers, lines, strict=True):
        new = [line for line in server.process.stderr().splitlines()[before:] if "denials" not in line]
        about = [line for line in new if store.address in line]
        assert 2 <= len(about) <= 4, "breaker opened and closed; perhaps also degraded and not degraded"
        assert len(new) <= 8, new


def test_replicas_that_are_waited_for(fleet, redis_server, redis_replica, closing):
    master = redis_server()
    replica = redis_replica(master)
    running = fleet(RULES, master.url, servers=2, flags=["--store-wait-replicas", "1"])
    clients = [closing(client) for client in running.clients(2)]
    for client in clients:
        for _ in range(5):
            assert client.ask({"by": "served", "user": "ann"}).shared
    short = running.metric("tidegate_store_replicas_short_total")
    mark = "x-tidegate-unreplicated"

    def is_marked(client):
        answer = client.ask({"by": "served", "user": "ann"})
        assert (answer.headers.get(mark) == "true") == answer.body.get("unreplicated", False)
        return answer.shared and answer.headers.get(mark) == "true"

    replica.pause()
    wait_for("answers are marked", lambda: all([is_marked(client) for client in clients]))
    assert running.metric("tidegate_store_replicas_short_total") > short
    assert running.metric("tidegate_store_breaker_open") == 0
    replica.resume()
    wait_for("the replica is waited for again", lambda: not any([is_marked(client) for client in clients]))


def test_servers_that_leave_are_no_longer_counted(fleet, redis_server):
    running = fleet(RULES, redis_server().url, servers=3)
    running.wait_for_each_other()
    running.servers[2].process.kill()
    began = time.monotonic()
    for server in running.servers[:2]:
        wait_for("two nodes are left", lambda server=server: server.metric("tidegate_store_live_nodes") == 2)
    print(f"\nnoticed after {time.monotonic() - began:.1f} s")
