"""Independent Redis servers, with keys spread over them."""

import pytest
from harness.fleet import all_at_once, rule, rules
from harness.waiting import wait_for

LIMIT = 40
RULES = rules(
    rule("strict", f"{{ limit: {LIMIT}, per: 100d }}", on_store_failure="deny"),
    rule("local", f"{{ limit: {LIMIT}, per: 100d }}"),
)
MANY_USERS = [f"user-{number}" for number in range(300)]


@pytest.fixture
def members(redis_server):
    return [redis_server() for _ in range(3)]


def ring_of(*members):
    return "redis+ring://" + ",".join(member.address for member in members)


def users_at(member):
    return {name.partition("{")[2].partition("}")[0] for name in member.keys("tg:1{*")}


def ask_for(client, users, by="strict"):
    for user in users:
        answer = client.ask({"by": by, "user": user})
        assert answer.shared, answer


def test_each_key_is_at_one_member_and_its_limit_is_exact(fleet, members, closing):
    running = fleet(RULES, ring_of(*members))
    clients = [closing(client) for client in running.clients(32)]
    users = MANY_USERS[:6]

    def ask(client, number):
        return users[number % 6], client.ask({"by": "strict", "user": users[number % 6]}).passes

    answers = all_at_once(clients, 12, ask)
    lost = running.undecided()
    for user in users:
        passed = sum(passes for asked, passes in answers if asked == user)
        assert LIMIT - lost <= passed <= LIMIT, (user, passed)
    placed = [users_at(member) for member in members]
    assert sorted(user for each in placed for user in each) == sorted(users), placed


def test_one_more_member_takes_its_part_and_nothing_else_moves(fleet, members, redis_server, closing):
    running = fleet(RULES, ring_of(*members), servers=1)
    [client] = map(closing, running.clients(1))
    ask_for(client, MANY_USERS)
    before = [users_at(member) for member in members]
    assert sum(map(len, before)) == len(MANY_USERS)
    assert min(map(len, before)) > 60, "about a hundred each"

    newcomer = redis_server()
    # The order of the members in the URL does not matter.
    running = fleet(RULES, ring_of(newcomer, *reversed(members)), servers=1)
    [client] = map(closing, running.clients(1))
    ask_for(client, MANY_USERS)
    moved = users_at(newcomer)
    assert [users_at(member) for member in members] == before, "other keys did not move"
    assert 40 < len(moved) < 120, f"{len(moved)} of {len(MANY_USERS)}: a quarter is 75"


def test_keys_of_a_dead_member_go_to_the_next_until_it_is_back(fleet, members, closing):
    running = fleet(RULES, ring_of(*members), servers=2, timeout="300ms")
    clients = [closing(client) for client in running.clients(2)]
    users = MANY_USERS[:60]
    ask_for(clients[0], users, by="local")
    ask_for(clients[0], users)
    dead = members[0]
    its = users_at(dead)
    assert its

    dead.kill()

    def all_are_decided():
        return all(client.ask({"by": "local", "user": user}).shared for client in clients for user in its)

    wait_for("other members decide", all_are_decided)
    # Another member would admit the limit once more.
    for user in its:
        answer = clients[0].ask({"by": "strict", "user": user})
        assert answer.status == 503 and answer.degraded, answer
    assert running.metric("tidegate_store_ring_moved_total") > 0
    held = users_at(members[1]) | users_at(members[2])
    assert its <= held
    assert its & users_at(members[1]) and its & users_at(members[2]), "spread over both"

    moved = running.metric("tidegate_store_ring_moved_total")
    assert moved > 0
    dead.restart()
    wait_for("the member is used again", lambda: [ask(client, its) for client in clients] and its <= users_at(dead))
    for server in running.servers:
        wait_for("no breaker is open", lambda server=server: server.metric("tidegate_store_breaker_open") == 0)
    moved = running.metric("tidegate_store_ring_moved_total")
    for client in clients:
        ask_for(client, users, by="local")
        ask_for(client, users)
    assert running.metric("tidegate_store_ring_moved_total") == moved, "each key is at its own member"


def ask(client, users):
    return [client.ask({"by": "local", "user": user}).shared for user in users]
