"""What a decision costs Redis, beside a plain script that decides one key of gcra in a call.

    python measure.py [--decisions 100000] [--rounds 5]

All in one run on one server, in turns, 64 decisions in flight. Redis's own processor time counts, with what it takes to
read requests and to write replies; beside it what `INFO commandstats` says of the script alone. Ratios are to the plain
script.
"""

import argparse
import statistics

import redis

from limits import Limit, term
from script import CHECK, Call, Charge, Server, Script

IN_FLIGHT = 64
SECOND_NS = 10**9

PLAIN = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = redis.call('GET', KEYS[1])
tat = tat and tonumber(tat) or now
if tat < now then tat = now end
local new_tat = tat + interval * cost
local allow_at = new_tat - interval * burst
if allow_at > now then
  return { 0, 0, allow_at - now, tat - now }
end
redis.call('SET', KEYS[1], new_tat, 'PX', math.ceil((new_tat - now) / 1000))
return { 1, math.floor((now - allow_at) / interval), 0, new_tat - now }
"""


class Plain:
    name = "plain script, a key each"
    # Microseconds between units, burst and cost: the limit that the others have, too.
    arguments = (1_000, 1_000_000, 1)
    keys_are_one = False

    def __init__(self, server):
        self.sha = server.client.script_load(PLAIN)

    def commands(self, keys):
        return [("EVALSHA", self.sha, 1, key, *self.arguments) for key in keys]


class PlainHot(Plain):
    name = "plain script, one key"
    keys_are_one = True


class PlainDenied(PlainHot):
    name = "plain script, one denied key"
    arguments = (3_600_000_000, 1, 1)


class Plans:
    def __init__(self, script, name, limits, per_call, keys_are_one=False):
        self.script, self.limits, self.per_call, self.keys_are_one = script, limits, per_call, keys_are_one
        self.name = f"{name}, {per_call} a call"

    def commands(self, keys):
        terms = [term(limit, 1) for limit in self.limits]
        for first in range(0, len(keys), self.per_call):
            plans = keys[first : first + self.per_call]
            call = Call()
            # Keys of a charge are in a row.
            for at in range(len(terms)):
                for key in plans:
                    call.place(b"%s/%d" % (key, at))
            call.group(CHECK, [[Charge(b"%s/%d" % (key, at), one) for at, one in enumerate(terms)] for key in plans])
            yield ("EVALSHA", self.script.sha, *call.arguments())


def packed(connection, commands):
    return b"".join(b"".join(connection.pack_command(*command)) for command in commands)


def measure(server, contender, decisions, keys):
    """Microseconds of Redis for a decision: all of it, and in the script."""
    connection = redis.Connection(port=server.port)
    connection.connect()
    batches = []
    for first in range(0, decisions, IN_FLIGHT):
        in_turn = [keys[(first + at) % len(keys)] for at in range(IN_FLIGHT)]
        chosen = [keys[0]] * IN_FLIGHT if contender.keys_are_one else in_turn
        commands = list(contender.commands(chosen))
        batches.append((packed(connection, commands), len(commands)))
    server.client.config_resetstat()
    before = server.client.info("cpu")
    for request, replies in batches:
        connection.send_packed_command([request])
        for _ in range(replies):
            connection.read_response()
    after = server.client.info("cpu")
    stats = server.client.info("commandstats")["cmdstat_evalsha"]
    connection.disconnect()
    spent_s = sum(after[kind] - before[kind] for kind in ("used_cpu_user", "used_cpu_sys"))
    return spent_s * 1e6 / decisions, stats["usec"] / decisions


def contenders(server, script):
    roomy = lambda algorithm: Limit(algorithm, 1_000_000, 60 * SECOND_NS)
    gcra = Limit("gcra", 1000, SECOND_NS, burst=1_000_000)
    denied = Limit("gcra", 1, 3600 * SECOND_NS, burst=1)
    yield Plain(server)
    for per_call in (1, 8, 64):
        yield Plans(script, "gcra, a key each", [gcra], per_call)
    yield Plans(script, "gcra of thirds, a key each", [Limit("gcra", 3333, 3 * SECOND_NS, burst=1_000_000)], 64)
    for algorithm in ("fixed_window", "sliding_window", "sub_windows"):
        yield Plans(script, f"{algorithm}, a key each", [roomy(algorithm)], 64)
    yield Plans(script, "sliding_log of 100, a key each", [Limit("sliding_log", 100, 60 * SECOND_NS)], 64)
    yield Plans(script, "concurrency of 20, a key each", [Limit("concurrency", 20, 60 * SECOND_NS)], 64)
    yield Plans(script, "gcra and fixed_window, two keys each", [gcra, roomy("fixed_window")], 64)
    yield PlainHot(server)
    yield Plans(script, "gcra, one key", [gcra], 64, keys_are_one=True)
    yield PlainDenied(server)
    yield Plans(script, "gcra, one denied key", [denied], 64, keys_are_one=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--decisions", type=int, default=64_000)
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args()
    server = Server()
    try:
        everyone = list(contenders(server, Script(server)))
        found = {one: [] for one in everyone}
        keys = [b"key:%012d" % at for at in range(10_240)]
        for _ in range(options.rounds):
            for one in everyone:
                server.client.flushall()
                found[one].append(measure(server, one, options.decisions, keys))
        print(f"{'Redis CPU per decision':40}{'all us':>9}{'script us':>11}{'ratio of all':>14}{'of script':>11}")
        for one in everyone:
            if isinstance(one, Plain):
                base = found[one]
            total, inside = (statistics.median(column) for column in zip(*found[one]))
            ratios = [[a / b for a, b in zip(mine, plain)] for mine, plain in zip(found[one], base)]
            of_all, of_script = (statistics.median(column) for column in zip(*ratios))
            print(f"{one.name:40}{total:9.2f}{inside:11.2f}{of_all:14.2f}{of_script:11.2f}")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
