"""Four servers, 32 clients, one store: together they admit exactly the limit."""

import time

import pytest
from harness.asking import redis_client
from harness.fleet import EVERY_PROTOCOL, PASSES, all_at_once, operate, rule, rules
from harness.waiting import wait_for

LIMIT = 40
CLIENTS_AT_ONCE = 32
REQUESTS_EACH = 8
USERS = [f"user-{number}" for number in range(4)]

# The windows are so long that no unit comes back during the test.
LIMITS = {
    "fixed_window": "{ limit: 40, per: 100d, algorithm: fixed_window }",
    "fixed_window_first_hit": "{ limit: 40, per: 1d, algorithm: fixed_window, align: first_hit }",
    "fixed_window_calendar": "{ limit: 40, per: month, algorithm: fixed_window, align: { tz: Europe/Paris } }",
    "fixed_window_count_denied": "{ limit: 40, per: 100d, algorithm: fixed_window, count_denied: true }",
    "sliding_log": "{ limit: 40, per: 1d, algorithm: sliding_log }",
    "sliding_log_count_denied": "{ limit: 40, per: 1d, algorithm: sliding_log, count_denied: true }",
    "sliding_log_min_interval": "{ limit: 40, per: 1d, algorithm: sliding_log, min_interval: 1h }",
    "sliding_window": "{ limit: 40, per: 100d, algorithm: sliding_window }",
    "sub_windows": "{ limit: 40, per: 100d, algorithm: sub_windows }",
    "sub_windows_loose": "{ limit: 40, per: 100d, algorithm: sub_windows, sub_windows: 7, strict: false }",
    "token_bucket": "{ limit: 7, per: 100d, burst: 40, algorithm: token_bucket }",
    "gcra": "{ limit: 37, per: 100d, burst: 40, algorithm: gcra }",
    # The time of one unit in nanoseconds exceeds the precision of a double.
    "gcra_once_in_years": "{ limit: 1, per: 3650d, burst: 40, algorithm: gcra }",
    # One leaves immediately, the others wait.
    "leaky_bucket": "{ limit: 7, per: 100d, algorithm: leaky_bucket, queue: 39 }",
    "concurrency": "{ limit: 40, algorithm: concurrency, ttl: 1h }",
}
# No other request comes late enough after the first.
ADMITTED = {"sliding_log_min_interval": 1}

# Requests that the store does not decide in time are denied. So only counted requests pass.
RULES = rules(*(rule(name, limit, on_store_failure="deny") for name, limit in LIMITS.items()))


@pytest.fixture(params=["single", "cluster", "redis-6.2", "valkey-9.1"])
def url(request):
    """The URL of a store of each kind."""
    if request.param == "cluster":
        return request.getfixturevalue("redis_cluster")().url
    programs = {"redis-6.2": "redis-server-6.2", "valkey-9.1": "valkey-server-9.1"}
    return request.getfixturevalue("redis_server")(programs.get(request.param, "redis-server")).url


def test_admitted_is_the_limit_exactly(fleet, url, closing):
    running = fleet(RULES, url)
    clients = [closing(client) for client in running.clients(CLIENTS_AT_ONCE, protocols=EVERY_PROTOCOL)]
    wrong = []
    for name in LIMITS:

        def ask(client, number, name=name):
            user = USERS[number % len(USERS)]
            return user, client.check("api", {"by": name, "user": user})

        undecided = running.undecided()
        answers = all_at_once(clients, REQUESTS_EACH, ask)
        assert len(answers) == CLIENTS_AT_ONCE * REQUESTS_EACH
        lost = running.undecided() - undecided
        assert lost < LIMIT / 2, f"{name}: the store did not decide {lost} requests within a second"
        for user in USERS:
            admitted, due = passed(answers, user), ADMITTED.get(name, LIMIT)
            # Requests that were not decided in time may have been charged.
            if not due - lost <= admitted <= due:
                wrong.append(f"{name}, {user}: {admitted} of {due} passed, {lost} undecided")
    assert not wrong, wrong
    running.must_run()


def passed(answers, user):
    return sum(answer in PASSES for asked, answer in answers if asked == user)


COSTS = rules(
    *(rule(name, LIMITS[name], on_store_failure="deny") for name in ("gcra", "fixed_window", "sliding_log", "sub_windows"))
)


def test_costs_add_up_to_the_limit(fleet, redis_server, closing):
    running = fleet(COSTS, redis_server().url)
    clients = [closing(client) for client in running.clients(CLIENTS_AT_ONCE)]
    for name in ("gcra", "fixed_window", "sliding_log", "sub_windows"):

        def ask(client, number, name=name):
            cost = 1 + number % 3
            return cost if client.ask({"by": name, "user": "ann"}, cost=cost).passes else 0

        # The last requests cost 1, so that no unit is left.
        used = sum(all_at_once(clients, 3, ask))
        while clients[0].ask({"by": name, "user": "ann"}).passes:
            used += 1
        lost = 3 * running.undecided()
        assert LIMIT - lost <= used <= LIMIT, name


@pytest.mark.parametrize("kind", ["single", "cluster"])
def test_leases_are_held_by_one_and_given_back_anywhere(fleet, redis_server, redis_cluster, closing, kind):
    store = redis_server() if kind == "single" else redis_cluster()
    running = fleet(rules(rule("concurrency", LIMITS["concurrency"], on_store_failure="deny")), store.url)
    clients = [closing(client) for client in running.clients(CLIENTS_AT_ONCE)]
    asked = {"by": "concurrency", "user": "ann"}

    def acquired():
        answers = all_at_once(clients, 3, lambda client, _: client.ask(asked, path="/v1/acquire"))
        return [answer.body["lease"] for answer in answers if answer.passes]

    leases = acquired()
    assert len(leases) == LIMIT
    fences = [lease["fence"] for lease in leases]
    assert len(set(fences)) == LIMIT, "each fence is unique"

    def end(client, path, token):
        return client.ask(asked, path=path, token=token)

    for number, lease in enumerate(leases):
        # Any server can renew or release a lease.
        renewed = end(clients[number % CLIENTS_AT_ONCE], "/v1/renew", lease["token"])
        assert (renewed.status, renewed.body["result"]) == (200, "renewed")
        token = renewed.body["lease"]["token"]
        released = end(clients[(number + 1) % CLIENTS_AT_ONCE], "/v1/release", token)
        assert (released.status, released.body["result"]) == (200, "released")
    again = end(clients[0], "/v1/release", token)
    assert (again.status, again.body["result"]) == (409, "already_released")

    more = acquired()
    assert len(more) == LIMIT
    assert min(lease["fence"] for lease in more) > max(fences), "a later lease has a higher fence"


def test_cl_throttle_counts_for_all(fleet, redis_server, closing):
    running = fleet(rules(rule("unused", "1 per hour")), redis_server().url)
    clients = [
        closing(redis_client(port=running.servers[number % 4].resp_port)) for number in range(CLIENTS_AT_ONCE)
    ]
    gate = [OneKey(client) for client in clients]
    answers = all_at_once(gate, 4, lambda client, _: client.throttle())
    assert answers.count(0) == LIMIT


class OneKey:
    protocol = "resp"

    def __init__(self, client):
        self.client = client

    def throttle(self):
        return self.client.execute_command("CL.THROTTLE", "one-key", LIMIT - 1, 1, 100 * 24 * 3600)[0]


def test_what_is_given_back_at_one_is_seen_by_all(fleet, redis_server, closing):
    running = fleet(rules(rule("gcra", LIMITS["gcra"])), redis_server().url)
    clients = [closing(client) for client in running.clients(4)]
    asked = {"by": "gcra", "user": "ann"}
    answers = all_at_once(clients, 20, lambda client, _: client.ask(asked).passes)
    assert sum(answers) == LIMIT
    # Now each server denies from its deny cache.
    assert [client.ask(asked).decision for client in clients] == ["denied"] * 4

    reply = operate(running.servers[0], "/v1/refund", asked, cost=4)
    assert reply.status_code == 200, reply.text
    for client in clients:
        wait_for("the server sees it", lambda client=client: client.ask(asked).passes)
    assert [client.ask(asked).decision for client in clients] == ["denied"] * 4, "only four were refunded"

    reply = operate(running.servers[0], "/v1/reset", asked)
    assert reply.status_code == 200, reply.text
    for client in clients:
        wait_for("the server sees it", lambda client=client: client.ask(asked).passes)


def test_who_is_held_is_let_go_at_the_rate_of_all(fleet, redis_server, closing):
    """Sixteen per second for four servers together, not for each."""
    held = rule("held", "{ limit: 16, per: 1s, burst: 1 }", action="{ delay: { max_wait: 1h } }")
    running = fleet(rules(held), redis_server().url)
    clients = [closing(client) for client in running.clients(16)]
    began = time.monotonic()
    answers = all_at_once(clients, 3, lambda client, _: client.ask({"by": "held", "user": "ann"}))
    took_s = time.monotonic() - began
    assert all(answer.shared and answer.passes for answer in answers)
    assert took_s >= 47 / 16 * 0.99


def test_namespaces_are_installations_of_their_own(fleet, redis_server, closing):
    store = redis_server()
    for namespace in ("one", "two"):
        running = fleet(rules(rule("gcra", LIMITS["gcra"])), store.url, servers=2, flags=["--store-namespace", namespace])
        clients = [closing(client) for client in running.clients(2)]
        answers = all_at_once(clients, 30, lambda client, _: client.ask({"by": "gcra", "user": "ann"}).passes)
        assert sum(answers) == LIMIT
    names = store.keys()
    assert {name.split(":")[0] for name in names} == {"one", "two"}, names


def counter_keys(store):
    """The keys of counters, without the list of nodes and the config store, which stay."""
    return [name for name in store.keys() if "nodes" not in name and ":1config" not in name]


def test_secrets_are_in_no_key(fleet, redis_server, closing):
    store = redis_server()
    named = rule("by-token", "5 per hour", match="{ header.authorization: { exists: true } }", key="[header.authorization]")
    running = fleet(rules(named), store.url, servers=2)
    for client in [closing(client) for client in running.clients(2)]:
        assert client.ask({"header.authorization": "hunter2"}).shared
    names = counter_keys(store)
    assert len(names) == 1 and "hunter2" not in names[0], names
    assert store.ask("TTL", names[0]) > 0


def test_all_keys_go_by_themselves(fleet, redis_server, closing):
    store = redis_server()
    brief = {name: limit.replace("100d", "2s").replace("1d", "2s").replace("3650d", "2s") for name, limit in LIMITS.items()}
    brief = {name: limit.replace("1h", "1s").replace("month", "day") for name, limit in brief.items()}
    running = fleet(rules(*(rule(name, limit) for name, limit in brief.items())), store.url, servers=1)
    [client] = [closing(client) for client in running.clients(1)]
    for name in brief:
        assert client.ask({"by": name, "user": "ann"}).shared, name
    calendar = 1

    assert all(store.ask("PTTL", name) != -1 for name in counter_keys(store))
    wait_for("only the key of the calendar day is left", lambda: len(counter_keys(store)) == calendar)
