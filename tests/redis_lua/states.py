"""States as the script writes them, read back into the terms of the models: what the caller does with a reply."""

import struct
from fractions import Fraction

from models import model

DAY_NS = 86_400_000_000_000


def live(limit, state, now_ns):
    """What a state says at `now_ns`, as the model of the limit would; none if it is as one never seen."""
    if state is None:
        return None
    read = model(limit)
    READERS[limit.algorithm](read, state)
    return read.live(now_ns)


def read_arrival(bucket, state):
    limit = bucket.limit.limit
    if state[:1] == b"f":
        us, ns, rest = number(state[1:8]), number(state[8:10]), number(state[10:])
        bucket.arrival = us * 1000 + ns + Fraction(min(rest, limit - 1), limit)
    elif state[:1] == b"w":
        days, ns, rest = number(state[1:8]), number(state[8:14]), number(state[14:])
        bucket.arrival = days * DAY_NS + ns + Fraction(min(rest, limit - 1), limit)
    else:
        value = int(state)
        bucket.arrival = Fraction(value * 1000 if value >= 0 else -value)


def read_fixed_window(window, state):
    if state[:1] == b"e":
        end_us, window.used = number(state[1:8]), number(state[8:])
    elif state[:1] == b"-":
        end_us, window.used = divmod(-int(state), 1000)
    else:
        end_ms, window.used = divmod(int(state), 1_000_000)
        end_us = end_ms * 1000
    window_ns, align = window.limit.window_ns, window.limit.align
    # The end was rounded up to a microsecond.
    if align == "first_hit":
        window.end_ns = end_us * 1000 - (-window_ns % 1000)
    elif align == "epoch":
        window.end_ns = end_us * 1000 // window_ns * window_ns
    else:
        window.end_ns = end_us * 1000


def read_sliding_window(windows, state):
    if state[:1] == b"s":
        windows.windows = number(state[1:7]), number(state[7:12]), number(state[12:])
    else:
        rest, cur = divmod(int(state), 10_000)
        windows.windows = (*divmod(rest, 10_000), cur)


def entries(state):
    """The base and the entries of a ledger."""
    base, before, found = number(state[:6]), number(state[6:12]), []
    for at in range(12, len(state), 13):
        stamp, total = number(state[at : at + 7]), number(state[at + 7 : at + 13])
        found.append((stamp, (total - before) % (1 << 48)))
        before = total
    return base, found


def read_sliding_log(log, state):
    base, found = entries(state)
    assert base == 0
    log.entries = [(us * 1000, units) for us, units in found]


def read_sub_windows(windows, state):
    base, found = entries(state)
    windows.entries = [(base * windows.limit.sub_windows + stamp, units) for stamp, units in found]


def read_leases(leases, state):
    leases.last_fence, leases.written_ns = number(state[:7]), number(state[7:14]) * 1000
    for at in range(22, len(state), 38):
        us, ns, fence, units = (number(state[at + a : at + b]) for a, b in ((0, 7), (7, 9), (9, 16), (16, 22)))
        leases.leases.append((us * 1000 + ns, fence, units, state[at + 22 : at + 38]))
    assert struct.unpack(">d", state[14:22])[0] == sum(units for _, _, units, _ in leases.leases)


def number(digits):
    return int.from_bytes(digits, "big")


READERS = {
    "gcra": read_arrival,
    "token_bucket": read_arrival,
    "leaky_bucket": read_arrival,
    "fixed_window": read_fixed_window,
    "sliding_window": read_sliding_window,
    "sub_windows": read_sub_windows,
    "sliding_log": read_sliding_log,
    "concurrency": read_leases,
}
