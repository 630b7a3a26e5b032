"""The script beside the plainest models, over random requests: every admission, every state, every expiry."""

import random
import struct

import pytest

from limits import Limit, term
from models import model
from script import ACQUIRE, CHECK, PEEK, REFUND, RELEASE, RENEW, RESET, Call, Charge
from states import live

STEPS = 1_500
EXPIRES_MS_MAX = 1 << 52
MS, S, DAY, YEAR = 10**6, 10**9, 86_400 * 10**9, 365 * 86_400 * 10**9
START_US = 1_750_000_000_000_000
UNITS_MAX = (1 << 40) - 1

BUCKETS = {
    "tenths": dict(limit=10, window_ns=S, burst=5),
    "sevenths": dict(limit=7, window_ns=S, burst=20),
    "prime": dict(limit=1_000_003, window_ns=S, burst=3),
    "ten_million": dict(limit=10_000_000, window_ns=S, burst=50),
    "odd": dict(limit=3, window_ns=3_000_001, burst=2),
    "largest": dict(limit=UNITS_MAX, window_ns=10 * YEAR, burst=UNITS_MAX),
    "yearly": dict(limit=1, window_ns=YEAR, burst=60),
    "centuries": dict(limit=1, window_ns=YEAR, burst=1000),
    "sevenths_of_a_century": dict(limit=7, window_ns=10 * YEAR, burst=1000),
    "aeons": dict(limit=1, window_ns=10 * YEAR, burst=UNITS_MAX),
    "none": dict(limit=0, window_ns=S, burst=3),
}
WINDOWS = {
    "second": dict(limit=10, window_ns=S),
    "millisecond": dict(limit=1000, window_ns=MS),
    "odd": dict(limit=50, window_ns=1_000_001),
    "odd_and_long": dict(limit=UNITS_MAX, window_ns=10 * YEAR - 1),
    "many": dict(limit=5_000_000, window_ns=60 * S),
    "largest": dict(limit=UNITS_MAX, window_ns=10 * YEAR),
    "none": dict(limit=0, window_ns=S),
}
CASES = {
    **{f"{kind}-{name}": Limit(kind, **case) for kind in ("gcra", "token_bucket", "leaky_bucket") for name, case in BUCKETS.items()},
    **{f"{kind}-{name}": Limit(kind, **case) for kind in ("fixed_window", "sliding_window", "sub_windows", "sliding_log") for name, case in WINDOWS.items()},
    **{f"fixed_window-count_denied-{name}": Limit("fixed_window", count_denied=True, **case) for name, case in WINDOWS.items()},
    **{f"fixed_window-first_hit-{name}": Limit("fixed_window", align="first_hit", **case) for name, case in WINDOWS.items()},
    **{f"sliding_log-count_denied-{name}": Limit("sliding_log", count_denied=True, **case) for name, case in WINDOWS.items()},
    **{f"sliding_log-min_interval-{name}": Limit("sliding_log", min_interval_ns=case["window_ns"] // 7, **case) for name, case in WINDOWS.items()},
    **{f"sub_windows-lenient-{name}": Limit("sub_windows", strict=False, sub_windows=7, **case) for name, case in WINDOWS.items()},
    **{f"sub_windows-most-{name}": Limit("sub_windows", sub_windows=1 << 16, **case) for name, case in WINDOWS.items()},
    **{f"concurrency-{name}": Limit("concurrency", **case) for name, case in WINDOWS.items()},
}  # fmt: skip


class Clock:
    """Time that goes on in steps that matter to a limit, stands still, and now and then steps back."""

    def __init__(self, dice, limits, start_us=START_US):
        self.dice, self.now_us = dice, start_us
        self.steps_us = [max(1, step) for limit in limits for step in steps_us(limit)]

    def tick(self):
        kind = self.dice.random()
        if kind < 0.5:
            self.now_us += self.dice.randrange(2 * self.dice.choice(self.steps_us) + 1)
        elif kind < 0.57:
            self.now_us = max(0, self.now_us - self.dice.randrange(2 * self.dice.choice(self.steps_us) + 1))
        # So that long windows neither run into the time after which sums are not exact nor end too soon.
        if self.now_us > 3 * START_US // 2:
            self.now_us = START_US
        return self.now_us


def steps_us(limit):
    window_us = limit.window_ns // 1000
    yield window_us // 5
    yield window_us // max(limit.limit, 1)
    yield 1


def random_cost(dice, limit):
    most = max(limit.limit, limit.burst, 1)
    small = dice.choice([0, 1, 1, 1, 2, 3])
    return dice.choice([small] * 6 + [dice.randrange(most + 2), most // 3, most, most + 1, (1 << 64) - 1])


@pytest.mark.parametrize("name", CASES)
def test_one_limit(script, name):
    limit, dice = CASES[name], random.Random(name)
    truth, key, clock = model(limit), b"key", Clock(dice, [limit])
    if dice.random() < 0.2:
        clock.now_us = 0
    for _ in range(STEPS):
        now_us = clock.tick()
        step(script, dice, truth, key, now_us)
        check_expiry(script, truth, key)


def step(script, dice, truth, key, now_us):
    """One call on one key, and what it should have done."""
    limit, now_ns = truth.limit, now_us * 1000
    op = dice.choices([CHECK, PEEK, REFUND, RESET], [80, 8, 10, 0.5])[0]
    looks_on = dice.random() < 0.1
    costs = [random_cost(dice, limit) for _ in range(dice.choice([1, 1, 1, 3]) if op == CHECK else 1)]
    charged_us = dice.choice([0, now_us, max(0, now_us - limit.window_ns // 1000)])
    call = Call()
    for cost in costs:
        charge = Charge(key, term(limit, cost, looks_on=looks_on, now_us=now_us))
        # Twice the same plan, in one group.
        times = 2 if len(costs) > 1 else 1
        call.group(op, [[charge]] * times, struct.pack("<d", charged_us) if op == REFUND else b"")
    before = truth.live(now_ns)
    expected = []
    for cost in (cost for cost in costs for _ in range(2 if len(costs) > 1 else 1)):
        fits = truth.fits(now_ns, cost)
        expected.append(fits or looks_on or op >= REFUND)
        if op == CHECK:
            truth.settle(now_ns, cost, fits=fits, is_admitted=fits or looks_on)
        elif op == REFUND and cost > 0 and not (charged_us and truth.began_after(charged_us * 1000)):
            truth.refund(now_ns, cost)
        elif op == RESET:
            forget(truth, now_us)
    reply = script.run(call, now_us)
    asked = (now_us, op, costs, looks_on)
    assert reply.errors == [], asked
    assert live(limit, reply.states[key], now_ns) == before, asked
    assert reply.admitted == expected, asked


def forget(truth, now_us):
    fence = getattr(truth, "last_fence", 0)
    truth.forget()
    # The last fence outlasts a reset for as long as the time is not past it.
    if fence and fence >= now_us:
        truth.last_fence, truth.written_ns = fence, now_us * 1000


def check_expiry(script, truth, key):
    ends_ns, expires_ms = truth.ends_ns(), script.expires_ms(key)
    if ends_ns is None:
        assert expires_ms is None
    else:
        assert expires_ms == min(-(-ends_ns // MS), EXPIRES_MS_MAX)


@pytest.mark.parametrize("seed", range(8))
def test_plans_of_several_limits(script, seed):
    dice = random.Random(seed)
    names = dice.sample(sorted(name for name in CASES if "largest" not in name and "none" not in name), 3)
    limits = [CASES[name] for name in names]
    truths, clock = [model(limit) for limit in limits], Clock(dice, limits)
    keys = [b"key:%d" % at for at in range(3)]
    for _ in range(STEPS):
        now_us = clock.tick()
        costs = [dice.choice([random_cost(dice, limit), 1, 1]) for limit in limits]
        looks_on = {at for at in range(3) if dice.random() < 0.1}
        reply = script.plan(limits, keys, costs, now_us, looks_on=looks_on)
        fit = [truth.fits(now_us * 1000, cost) for truth, cost in zip(truths, costs)]
        is_admitted = all(fits or at in looks_on for at, fits in enumerate(fit))
        assert reply.admitted == [is_admitted], (now_us, costs, looks_on)
        for truth, cost, fits, key in zip(truths, costs, fit, keys):
            assert live(truth.limit, reply.states[key], now_us * 1000) == truth.live(now_us * 1000)
        charge_together(truths, costs, fit, looks_on, is_admitted, now_us * 1000)
        for truth, key in zip(truths, keys):
            check_expiry(script, truth, key)


def charge_together(truths, costs, fit, looks_on, is_admitted, now_ns, owner=bytes(16), ttl_ns=None):
    """Charges a plan; its leases are one. Says which, as expiry and fence."""
    takers = [at for at, truth in enumerate(truths) if truth.limit.algorithm == "concurrency" and costs[at] > 0]
    grant = None
    if takers and is_admitted:
        leading = [at for at in takers if at not in looks_on] or takers
        fence = max(truths[at].next_fence(now_ns) for at in takers)
        ttl = min([truths[at].limit.window_ns for at in leading] + ([max(ttl_ns, MS)] if ttl_ns else []))
        grant = max(truths[at].instant(now_ns) for at in leading) + ttl, fence
    for at, (truth, cost, fits) in enumerate(zip(truths, costs, fit)):
        if at not in takers:
            truth.settle(now_ns, cost, fits=fits, is_admitted=is_admitted)
        elif grant:
            truth.hold(now_ns, *grant, min(cost, 1 << 40), owner)
    return grant


@pytest.mark.parametrize("seed", range(6))
def test_leases_have_owners(script, seed):
    dice = random.Random(seed)
    limits = [Limit("concurrency", 5, S), Limit("concurrency", 8, S // 3 + 1)][: 1 + seed % 2]
    truths, clock, leases = [model(limit) for limit in limits], Clock(dice, limits), []
    keys, known = [b"key:%d" % at for at in range(len(limits))], set()
    for _ in range(STEPS):
        now_us = clock.tick()
        now_ns, op = now_us * 1000, dice.choice([ACQUIRE, ACQUIRE, RENEW, RELEASE, RELEASE])
        if op != ACQUIRE and not leases:
            continue
        cost, ttl_ns = dice.choice([1, 1, 2, 3]), dice.choice([None, None, S // 7, 100])
        if op == ACQUIRE:
            owner, grant = dice.randbytes(16), (0, 0)
        else:
            owner, grant = dice.choice(leases)
            owner = dice.choice([owner] * 9 + [bytes(16)])
        extra = owner + struct.pack("<5d", *divmod(ttl_ns or 0, 1000), *divmod(grant[0], 1000), grant[1])
        reply = script.plan(limits, keys, [cost] * len(limits), now_us, op=op, extra=extra)
        if op == ACQUIRE:
            fit = [truth.fits(now_ns, cost) for truth in truths]
            done = all(fit)
            granted = charge_together(truths, [cost] * len(limits), fit, (), done, now_ns, owner, ttl_ns)
            if granted:
                assert granted[1] not in known, "a fence twice"
                known.add(granted[1])
                leases.append((owner, granted))
        else:
            instant = max(truth.instant(now_ns) for truth in truths)
            released = [truth.release(now_ns, grant[1], owner) for truth in truths]
            done = any(units is not None for units in released)
            if op == RENEW:
                expires_ns = instant + min([limit.window_ns for limit in limits] + ([max(ttl_ns, MS)] if ttl_ns else []))
                for truth, units in zip(truths, released):
                    if units is not None:
                        truth.hold(now_ns, expires_ns, grant[1], units, owner)
                # Half of the holders do not take note of it.
                if done and dice.random() < 0.5:
                    leases.append((owner, (expires_ns, grant[1])))
            for truth, units in zip(truths, released):
                if units is not None:
                    truth.forget_if_idle()
        leases = leases[-12:]
        assert reply.admitted == [done]
        assert reply.errors == []
        for truth, key in zip(truths, keys):
            check_expiry(script, truth, key)


@pytest.mark.parametrize("seed", range(4))
def test_a_bucket_keeps_its_arrival_time_when_its_limit_changes(script, seed):
    """Under another L what is left of a nanosecond means something else, so states are compared to a nanosecond."""
    dice = random.Random(seed)
    key, now_us = b"key", START_US
    known_ns = None
    for _ in range(STEPS):
        limit = Limit("gcra", **BUCKETS[dice.choice([name for name in BUCKETS if name != "none"])])
        now_us += dice.randrange(10**6)
        reply = script.plan([limit], [key], [1], now_us)
        assert reply.errors == []
        found = live(limit, reply.states[key], now_us * 1000)
        if known_ns is not None and known_ns > now_us * 1000 + 1:
            assert abs(found - known_ns) <= 1
        truth = model(limit)
        truth.arrival = found
        fits = truth.fits(now_us * 1000, 1)
        assert reply.admitted == [fits]
        truth.settle(now_us * 1000, 1, fits=fits, is_admitted=fits)
        known_ns = truth.arrival
