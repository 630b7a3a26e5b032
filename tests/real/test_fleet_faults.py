"""Redis hangs, the link fails, Redis refuses commands: answers are as documented, and no resource grows.

Two kinds of rules show this. `strict` admits only what the store has counted: never more than the limit, and at least the
limit minus the requests that were not decided in time. `local` is the default: each server continues with its share of the
limit and marks its answers.
"""

import datetime
import statistics
import time
from email.utils import parsedate_to_datetime

import pytest
from harness.fleet import Load, all_at_once, rule, rules
from harness.tally import Tally
from harness.waiting import wait_for

LIMIT = 200
STRICT = rule("strict", f"{{ limit: {LIMIT}, per: 100d }}", on_store_failure="deny")
LOCAL = rule("local", "{ limit: 40, per: 100d }")
SERVED = rule("served", "{ limit: 1000000, per: 1h }")
ALLOWED = rule("allowed", "{ limit: 1, per: 100d }", on_store_failure="allow")
RULES = rules(STRICT, LOCAL, SERVED, ALLOWED)
USERS = [f"user-{number}" for number in range(8)]


def undecided_share(answers):
    return sum(not answer.shared for answer in answers) / len(answers)


def is_open(running):
    """Whether the breaker of every server is open."""
    return all(server.metric("tidegate_store_breaker_open") >= 1 for server in running.servers)


def is_closed(running):
    return all(server.metric("tidegate_store_breaker_open") == 0 for server in running.servers)


def resident_bytes(server):
    pages = int(open(f"/proc/{server.process.pid}/statm").read().split()[1])
    return pages * 4096


def assert_is_degraded(answer):
    assert answer.degraded and answer.headers["x-tidegate-degraded"] == "true"


def test_redis_hangs_under_load(fleet, redis_server, request):
    """Connections stay open but Redis does not answer, for the time of --stopped-for."""
    deadline_s = 0.25
    store = redis_server()
    running = fleet(RULES, store.url, timeout=f"{deadline_s * 1000:.0f}ms")
    running.wait_for_each_other()
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask, clients=32, pause_s=0.02) as load:
        load.more()
        store.pause()
        wait_for("all breakers are open", lambda: is_open(running))
        load.more()
        before = [resident_bytes(server) for server in running.servers]
        answers = load.lasts(request.config.getoption("--stopped-for"))
        after = [resident_bytes(server) for server in running.servers]
        assert not any(answer.shared for answer in answers)
        store.resume()
        began = time.monotonic()
        wait_for("all breakers are closed", lambda: is_closed(running))
        closed_s = time.monotonic() - began
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    grown = [now - then for then, now in zip(before, after, strict=True)]
    seconds = sorted(answer.seconds for answer in load.answers)
    p999 = seconds[int(len(seconds) * 0.999)]
    print(
        f"\n{len(answers)} answers while it hung; of all {len(seconds)} the median took"
        f" {statistics.median(seconds) * 1000:.1f} ms, 99.9% at most {p999 * 1000:.1f} ms, the slowest"
        f" {seconds[-1] * 1000:.1f} ms (deadline {deadline_s * 1000:.0f} ms);"
        f" memory grew by at most {max(grown) / 1024:.0f} KiB; breakers closed {closed_s:.2f} s after Redis was back"
    )
    assert p999 <= 2 * deadline_s
    assert max(grown) < 8 << 20, grown
    tally.use_up(running)
    tally.assert_is_bounded("Redis hung")
    running.must_run()


def test_each_server_goes_on_with_its_share(fleet, redis_server):
    store = redis_server()
    running = fleet(RULES, store.url, timeout="100ms")
    running.wait_for_each_other()
    store.pause()
    clients = running.clients(4)
    answers = all_at_once(clients, 30, lambda client, _: (client, client.ask({"by": "local", "user": "ann"})))
    for client in clients:
        passed = [answer for asked, answer in answers if asked is client and answer.passes]
        assert len(passed) == 10, "a quarter of 40"
        for answer in passed:
            assert_is_degraded(answer)
    denied = clients[0].ask({"by": "local", "user": "ann"})
    assert_is_degraded(denied)
    assert (denied.status, denied.decision) == (429, "denied")

    refused = clients[0].ask({"by": "strict", "user": "ann"})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.headers["content-type"].startswith("application/problem+json")
    assert refused.body["decision"] == "unavailable"
    for _ in range(3):
        allowed = clients[0].ask({"by": "allowed", "user": "ann"})
        assert_is_degraded(allowed)
        assert (allowed.status, allowed.decision) == (200, "allowed")

    store.resume()
    running.wait_until_shared({"by": "local", "user": "ann"})
    assert not clients[0].ask({"by": "local", "user": "bob"}).degraded
    for client in clients:
        client.close()
    changes = ("is down", "is back", "decided without the shared store")
    for server in running.servers:
        # The server checks once a second whether it decides without the store.
        wait_for("a line for each change", lambda: all(change in server.process.stderr() for change in changes))
        log = server.process.stderr()
        assert [log.count(change) for change in changes] == [1, 1, 1], log


def test_connections_are_reset_under_load(fleet, redis_server, fault_proxy):
    proxy = fault_proxy(redis_server())
    running = fleet(RULES, proxy.url)
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        load.more()
        for _ in range(5):
            proxy.resets_once()
            load.more()
        running.wait_until_shared({"by": "served", "user": "ann"})
        # Now no connection works for a while.
        proxy.resets()
        wait_for("all breakers are open", lambda: is_open(running))
        before = proxy.connections
        answers = load.more()
        assert undecided_share(answers[-32:]) == 1
        began, had = time.monotonic(), proxy.connections
        load.lasts(2)
        tried = (proxy.connections - had) / (time.monotonic() - began) / len(running.servers)
        assert tried <= 4, f"{tried} connections per second and server, since {before}"
        proxy.passes()
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    assert running.metric("tidegate_store_reconnects_total") > 0
    tally.use_up(running)
    tally.assert_is_bounded("connections reset")
    running.must_run()


def test_a_slow_link_within_the_deadline_is_only_slow(fleet, redis_server, fault_proxy):
    proxy = fault_proxy(redis_server())
    running = fleet(RULES, proxy.url, timeout="2s")
    proxy.delays(25)
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        answers = load.more(400)
    assert undecided_share(answers) < 0.05
    proxy.passes()
    tally.use_up(running)
    tally.assert_is_bounded("slow link")


def test_a_link_slower_than_the_deadline_is_none(fleet, redis_server, fault_proxy):
    """Late decisions are answered without the store, but the store has charged them."""
    proxy = fault_proxy(redis_server())
    running = fleet(RULES, proxy.url, timeout="100ms")
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        load.more()
        proxy.delays(200)
        load.more()
        wait_for("all breakers are open", lambda: is_open(running))
        answers = load.more()
        assert undecided_share(answers[-32:]) > 0.9
        proxy.passes()
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    tally.use_up(running)
    tally.assert_is_bounded("link slower than the deadline")


def test_redis_is_out_of_memory(fleet, redis_server):
    store = redis_server()
    running = fleet(RULES, store.url)
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        load.more()
        store.ask("CONFIG", "SET", "maxmemory", 1)
        wait_for(
            "Redis refuses writes",
            lambda: load.more() and running.metric("tidegate_store_writes_refused") == len(running.servers),
        )
        answers = load.more()
        assert is_closed(running), "it is still asked, because it can deny"
        # A refused request is charged nowhere.
        assert not any(answer.passes and answer.shared for answer in answers[-32:])
        store.ask("CONFIG", "SET", "maxmemory", 0)
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    assert running.metric("tidegate_store_failures_total", reason="refused") > 0
    tally.use_up(running)
    tally.assert_is_bounded("out of memory")


def test_the_master_becomes_a_replica(fleet, redis_server):
    """It answers but accepts no writes."""
    store, other = redis_server(), redis_server()
    running = fleet(RULES, store.url)
    with Load(running, Tally(LIMIT, USERS).ask) as load:
        load.more()
        store.ask("REPLICAOF", "127.0.0.1", other.port)
        wait_for("Redis refuses writes", lambda: undecided_share(load.more()) == 1)
        store.ask("REPLICAOF", "NO", "ONE")
        running.wait_until_shared({"by": "served", "user": "ann"})
        assert undecided_share(load.more()) < 0.5
    running.must_run()


def test_something_else_is_where_a_counter_should_be(fleet, redis_server, closing):
    """That key cannot be decided. Other keys are decided, even in the same call."""
    store = redis_server()
    running = fleet(RULES, store.url)
    clients = [closing(client) for client in running.clients(4)]
    for by in ("strict", "local"):
        assert clients[0].ask({"by": by, "user": "broken"}).shared
    for name in (name for name in store.keys() if "{broken}" in name):
        store.ask("DEL", name)
        store.ask("RPUSH", name, "not", "a", "counter")

    def ask(client, number):
        user = "broken" if number % 2 else "whole"
        return user, client.ask({"by": "strict", "user": user}), client.ask({"by": "local", "user": user})

    for user, strict, local in all_at_once(clients, 6, ask):
        if user == "whole":
            assert strict.shared and local.shared
        else:
            assert strict.status == 503 and local.status in (200, 429)
            assert_is_degraded(local)
    assert is_closed(running), "no breaker opens for a bad key"
    assert running.metric("tidegate_store_failures_total", reason="unreadable") > 0
    # It is not an outage of the store, and the log names the keys.
    assert running.metric("tidegate_store_unreadable_decisions_total") > 0
    assert running.metric("tidegate_store_degraded_decisions_total") == 0
    assert running.metric("tidegate_store_degraded") == 0
    broken = [name for name in store.keys() if "{broken}" in name]
    for server in running.servers:
        wait_for("the log names the key", lambda log=server.process.stderr: any(name in log() for name in broken))
        assert "does not answer" not in server.process.stderr()
    # Keys of other programs are not changed.
    assert all(store.ask("TYPE", name) == "list" for name in store.keys() if "{broken}" in name)


def test_scripts_are_flushed_under_load(fleet, redis_server):
    store = redis_server()
    running = fleet(RULES, store.url)
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        for _ in range(20):
            load.more(50)
            store.ask("SCRIPT", "FLUSH")
    assert undecided_share(load.answers) < 0.05, "the script is loaded again within the same decision"
    tally.use_up(running)
    tally.assert_is_bounded("scripts flushed")


@pytest.mark.parametrize("keeps", ["all", "nothing"])
def test_redis_is_restarted_under_load(fleet, redis_server, keeps):
    """Counters on disk are kept. Without any, each user gets the limit once more, but only once."""
    options = {"appendonly": "yes", "appendfsync": "always"} if keeps == "all" else {}
    store = redis_server(**options)
    running = fleet(RULES, store.url, timeout="300ms")
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask) as load:
        load.more(400)
        store.kill()
        load.more()
        store.restart()
        running.wait_until_shared({"by": "served", "user": "ann"})
        load.more()
    tally.use_up(running)
    tally.assert_is_bounded(f"restarted, with {keeps} kept", losses=0 if keeps == "all" else 1)
    running.must_run()


def test_servers_whose_clocks_are_off(fleet, redis_server, parts, closing):
    """Clocks are off by an hour and by a day. Only the clock of Redis counts, for every algorithm."""
    preload = {"LD_PRELOAD": str(parts / "bin/libfaketimeMT.so.1"), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    envs = [None, *({**preload, "FAKETIME": off} for off in ("-1h", "+1h", "-1d"))]
    # A time zone where it is less than an hour after midnight, so that an hour ago was another day.
    zone = f"Etc/GMT{-midnight_offset_h():+d}" if midnight_offset_h() else "Etc/GMT"
    limits = {
        "fixed_window": "{ limit: 40, per: 10m, algorithm: fixed_window, align: first_hit }",
        "calendar": f"{{ limit: 40, per: day, algorithm: fixed_window, align: {{ tz: {zone} }} }}",
        "sliding_log": "{ limit: 40, per: 10m, algorithm: sliding_log }",
        "sub_windows": "{ limit: 40, per: 10m, algorithm: sub_windows, sub_windows: 2 }",
        "gcra": "{ limit: 1, per: 30m, burst: 40, algorithm: gcra }",
        "leaky_bucket": "{ limit: 1, per: 30m, queue: 39, algorithm: leaky_bucket }",
        "concurrency": "{ limit: 40, ttl: 20m, algorithm: concurrency }",
    }
    running = fleet(rules(*(rule(*each, on_store_failure="deny") for each in limits.items())), redis_server().url, envs=envs)
    dates = {response_date(server) for server in running.servers}
    assert len({date.day for date in dates}) > 1, "their clocks are off"
    clients = [closing(client) for client in running.clients(16)]
    for name in limits:
        answers = all_at_once(clients, 6, lambda client, _, name=name: client.ask({"by": name, "user": "ann"}))
        passed, undecided = sum(answer.passes for answer in answers), sum(answer.status == 503 for answer in answers)
        assert 40 - undecided <= passed <= 40, f"{name}: {passed}"
        assert undecided < 20, name
    running.must_run()


def midnight_offset_h():
    """The UTC offset in hours at which it is now between midnight and one o'clock."""
    hour = datetime.datetime.now(datetime.timezone.utc).hour
    return -hour if hour <= 12 else 24 - hour


def response_date(server):
    """The time by the clock of a server."""
    return parsedate_to_datetime(server.check({"user": "nobody"}, domain="api").headers["date"])
