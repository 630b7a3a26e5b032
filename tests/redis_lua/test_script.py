"""What holds for the script as a whole: errors stay with their plan, keys expire, replicas agree, states are small."""

import time

import pytest
import redis

from limits import Limit, parse, term
from script import CHECK, PEEK, RESET, Call, Charge, Server

SECOND_NS = 10**9
GCRA = Limit("gcra", 10, SECOND_NS, burst=5)
EVERY_KIND = {
    "gcra": GCRA,
    "fixed_window": Limit("fixed_window", 10, SECOND_NS),
    "sliding_window": Limit("sliding_window", 10, SECOND_NS),
    "sub_windows": Limit("sub_windows", 10, SECOND_NS),
    "sliding_log": Limit("sliding_log", 10, SECOND_NS),
    "concurrency": Limit("concurrency", 10, SECOND_NS),
    "gcra_wide": Limit("gcra", 1, 365 * 86_400 * SECOND_NS, burst=1000),
}
NO_STATES = [
    b"", b"x", b"-", b"-1", b"inf", b"nan", b"-nan123", b"f123", b"w", b"e12", b"s", b"12 monkeys", b"\0" * 13, b"9" * 40,
    b"1e400",
]  # fmt: skip
KEYS_MAX = 2000


def one_plan_each(limit, keys, cost=1):
    return [[Charge(key, term(limit, cost))] for key in keys]


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("also", [False, True], ids=["alone", "in_a_longer_plan"])
def test_what_cannot_be_read_is_an_error_of_its_plan_alone(script, kind, also):
    keys = [b"good", b"bad", b"list", b"better"]
    script.client.rpush(b"list", b"x")
    for state in NO_STATES:
        script.client.set(b"bad", state)
        limit = EVERY_KIND[kind]
        beside = [Charge(b"beside", term(GCRA, 0))] if also else []
        call = Call()
        call.place(b"good"), call.place(b"bad"), call.place(b"list"), call.place(b"better")
        call.group(CHECK, [plan + beside for plan in one_plan_each(limit, keys)])
        reply = script.run(call)
        assert reply.admitted[0] and reply.admitted[3]
        assert (2, 3) in reply.errors and not reply.admitted[2]
        # A number may be a state of a bucket or a window; then it is as good as any.
        if (1, 2) in reply.errors:
            assert not reply.admitted[1]
            assert script.client.get(b"bad") == state
        assert {plan for plan, _ in reply.errors} <= {1, 2}
        assert script.client.type(b"list") == b"list"
        script.client.delete(b"good", b"better")


def test_reset_heals_a_key_of_another_type(script):
    script.client.rpush(b"list", b"x")
    assert script.plan([GCRA], [b"list"], [1], op=RESET).admitted == [True]
    assert script.plan([GCRA], [b"list"], [1]).admitted == [True]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_key_expires_by_the_clock_of_redis(script, kind):
    reply = script.plan([EVERY_KIND[kind]], [b"key"], [1])
    assert reply.admitted == [True]
    assert abs(reply.time_us / 1e6 - time.time()) < 60
    assert 0 < script.client.pttl(b"key") <= 2 * max(EVERY_KIND[kind].window_ns // 10**6, 1)


def test_a_peek_writes_nothing(script):
    for kind, limit in EVERY_KIND.items():
        assert script.plan([limit], [kind.encode()], [1], op=PEEK).admitted == [True]
    assert script.client.dbsize() == 0


def test_plans_of_a_call_see_what_those_before_them_did(script):
    call = Call().group(CHECK, one_plan_each(GCRA, [b"shared"] * 7)).group(PEEK, one_plan_each(GCRA, [b"shared"]))
    # Each has a key of its own, and all of them one more.
    call.group(CHECK, [[Charge(b"own:%d" % at, term(GCRA, 1)), Charge(b"all", term(GCRA, 1))] for at in range(7)])
    reply = script.run(call, 1_750_000_000_000_000)
    assert reply.admitted == [True] * 5 + [False] * 2 + [False] + [True] * 5 + [False] * 2
    assert reply.states[b"all"] is None
    assert script.client.exists(*[b"own:%d" % at for at in range(7)]) == 5


def test_more_plans_than_a_word_has_bits(script):
    keys = [b"key:%d" % at for at in range(100)]
    for key in keys[::3]:
        script.plan([GCRA], [key], [5], 1_750_000_000_000_000)
    reply = script.run(Call().group(CHECK, one_plan_each(GCRA, keys)), 1_750_000_000_000_000)
    assert reply.admitted == [at % 3 != 0 for at in range(100)]


def test_as_many_keys_as_a_call_may_have(script):
    keys = [b"key:%d" % at for at in range(KEYS_MAX)]
    for expected in (True, False):
        reply = script.run(Call().group(CHECK, one_plan_each(GCRA, keys, cost=5)), 1_750_000_000_000_000)
        assert reply.admitted == [expected] * KEYS_MAX
    assert script.client.dbsize() == KEYS_MAX


def test_a_window_of_a_calendar_that_is_not_at_hand_is_an_error(script):
    limit = parse("{algorithm: fixed_window, limit: 3, per: day, align: {tz: Europe/Paris}}")
    now_us, day_us = 1_750_000_000_000_000, 86_400_000_000
    for off_us, is_known in ((0, True), (-day_us, True), (day_us, True), (-3 * day_us, False), (3 * day_us, False)):
        call = Call().group(CHECK, [[Charge(b"key", term(limit, 1, now_us=now_us + off_us))]])
        script.client.flushall()
        reply = script.run(call, now_us)
        assert reply.admitted == [is_known]
        assert reply.errors == ([] if is_known else [(0, 1)])


def test_a_server_without_memory_refuses_all_of_a_call(script):
    script.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.ResponseError):
            script.run(Call().group(CHECK, one_plan_each(GCRA, [b"a", b"b"])))
    finally:
        script.client.config_set("maxmemory", 0)
    assert script.client.dbsize() == 0


def test_a_replica_has_the_same_states_and_expiries(script, server):
    replica = Server()
    try:
        replica.client.replicaof("127.0.0.1", server.port)
        for _ in range(20):
            for kind, limit in EVERY_KIND.items():
                long = Limit(**{**vars(limit), "window_ns": 3600 * SECOND_NS})
                script.plan([long], [kind.encode()], [1])
        assert server.client.wait(1, 10_000) == 1
        for kind in EVERY_KIND:
            for command in ("DUMP", "PEXPIRETIME"):
                assert replica.client.execute_command(command, kind) == server.client.execute_command(command, kind)
            assert replica.client.exists(kind) == 1
    finally:
        replica.stop()


SIZES = [
    ("gcra, 10 per second", Limit("gcra", 10, SECOND_NS, burst=10), 1, 72),
    ("gcra, 10 million per second", Limit("gcra", 10_000_000, SECOND_NS, burst=9_000_000), 8_000_001, 72),
    ("gcra, 3 per second", Limit("gcra", 3, SECOND_NS, burst=3), 1, 104),
    ("gcra, 1 per year, burst 1000", EVERY_KIND["gcra_wide"], 1, 104),
    ("token_bucket, 5 per second", Limit("token_bucket", 5, SECOND_NS, burst=10), 1, 72),
    ("leaky_bucket, 5 per second", Limit("leaky_bucket", 5, SECOND_NS, burst=10), 1, 72),
    ("fixed_window, 999999 per minute", Limit("fixed_window", 999_999, 60 * SECOND_NS), 999_999, 72),
    ("fixed_window, a billion per minute", Limit("fixed_window", 10**9, 60 * SECOND_NS), 10**9, 104),
    ("fixed_window, first hit", Limit("fixed_window", 999, 60 * SECOND_NS, align="first_hit"), 999, 72),
    ("sliding_window, 9999 per minute", Limit("sliding_window", 9_999, 60 * SECOND_NS), 9_999, 72),
    ("sliding_window, a million per minute", Limit("sliding_window", 10**6, 60 * SECOND_NS), 10**6, 104),
]


@pytest.mark.parametrize("name, limit, cost, bytes_max", SIZES, ids=[size[0] for size in SIZES])
def test_states_are_small(script, name, limit, cost, bytes_max):
    key = b"0123456789abcdef"
    assert script.plan([limit], [key], [cost], 1_750_000_000_000_123).admitted == [True]
    used = script.client.memory_usage(key)
    print(f"{name}: {used} bytes")
    assert used <= bytes_max


def test_sizes_of_what_grows(script):
    """Printed with -s: of states that grow with their use, the largest of a usual limit."""
    cases = [("sub_windows, 60 in use", Limit("sub_windows", 10**6, 60 * SECOND_NS), 61, 10**6)]
    for count in (1, 10, 100, 1000):
        cases.append((f"sliding_log, {count} entries", Limit("sliding_log", count, 3600 * SECOND_NS), count, 1))
        cases.append((f"concurrency, {count} leases", Limit("concurrency", count, 3600 * SECOND_NS), count, 1))
    for name, limit, times, step_us in cases:
        script.client.flushall()
        for at in range(times):
            assert script.plan([limit], [b"0123456789abcdef"], [1], 1_750_000_000_000_000 + at * step_us).admitted == [True]
        length, used = script.client.strlen(b"0123456789abcdef"), script.client.memory_usage(b"0123456789abcdef")
        print(f"{name}: {length} bytes of state, {used} in Redis")

