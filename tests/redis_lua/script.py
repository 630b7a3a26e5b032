"""The script in a real Redis: the server, the call and its reply."""

import shutil
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis

from limits import term

LUA = Path(__file__).parents[2] / "crates/tidegate/src/redis/lua"
# Joining is putting them one after the other.
FILES = [
    "prelude", "gcra", "gcra_wide", "token_bucket", "leaky_bucket", "windows", "fixed_window", "sliding_window", "ledger",
    "sliding_log", "sub_windows", "concurrency", "nothing", "plans", "main",
]  # fmt: skip

CHECK, PEEK, REFUND, RESET, ACQUIRE, RENEW, RELEASE = range(1, 8)
# The times that tests hand in are over long ago for Redis, which would expire everything at once. So the epoch is this far
# ahead of it.
EPOCH_AHEAD_MS = 3_600_000
DEADLINE_S = 10


def source():
    return "\n".join((LUA / f"{name}.lua").read_text() for name in FILES if (LUA / f"{name}.lua").exists())


class Server:
    """A Redis of its own on a free port, stopped by its id."""

    def __init__(self, program="redis-server"):
        self.directory = tempfile.mkdtemp(prefix="tidegate-lua-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.directory]
        self.process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        self.client = redis.Redis(port=self.port)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.client.ping()
                break
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise

    def stop(self):
        self.client.close()
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        shutil.rmtree(self.directory)


@dataclass(frozen=True)
class Charge:
    key: bytes
    term: bytes
    stride: int = 1


@dataclass
class Reply:
    time_us: int
    states: dict
    admitted: list
    errors: list = field(default_factory=list)


class Call:
    """Groups of plans on their way into one call."""

    def __init__(self):
        self.keys, self.terms, self.bytes, self.plans = {}, {}, b"", 0

    def group(self, op, plans, extra=b""):
        """Plans of the same terms; the keys of a charge follow each other or are all one."""
        charges = b""
        for at, first in enumerate(plans[0]):
            keys = [plan[at].key for plan in plans]
            stride = 0 if len(set(keys)) == 1 else 1
            places = [self.place(key) for key in keys]
            assert places == [places[0] + stride * step for step in range(len(plans))], "keys have to be in a row"
            number = self.terms.setdefault(first.term, len(self.terms) + 1)
            charges += struct.pack(">HHB", number, places[0], stride)
        self.bytes += struct.pack(">BBH", op, len(plans[0]), len(plans)) + charges + extra
        self.plans += len(plans)
        return self

    def place(self, key):
        return self.keys.setdefault(key, len(self.keys) + 1)

    def arguments(self, clock=b""):
        return [len(self.keys), *self.keys, clock, self.bytes, *self.terms]


class Script:
    def __init__(self, server):
        self.client = server.client
        self.sha = self.client.script_load(source())
        self.shift_ms = int(time.time() * 1000) + EPOCH_AHEAD_MS

    def run(self, call, now_us=None):
        """Makes the call, at a time that is handed in or at that of Redis."""
        clock = b""
        if now_us is not None:
            clock = b"%d %d" % (now_us, self.shift_ms)
        reply = self.client.evalsha(self.sha, *call.arguments(clock))
        states, (time_us, *numbers) = reply[: len(call.keys)], reply[len(call.keys) :]
        words, errors = numbers[: -(-call.plans // 32)], numbers[-(-call.plans // 32) :]
        admitted = [bool(words[plan // 32] >> plan % 32 & 1) for plan in range(call.plans)]
        return Reply(time_us, dict(zip(call.keys, states)), admitted, list(zip(errors[::2], errors[1::2])))

    def plan(self, limits, keys, costs, now_us=None, op=CHECK, looks_on=(), extra=b""):
        """One plan: a limit, a key and a cost for each charge."""
        about_us = int(time.time() * 1e6) if now_us is None else now_us
        charges = [
            Charge(key, term(limit, cost, looks_on=at in looks_on, now_us=about_us))
            for at, (limit, key, cost) in enumerate(zip(limits, keys, costs))
        ]
        return self.run(Call().group(op, [charges], extra), now_us)

    def expires_ms(self, key):
        """When a key expires, by the time that was handed in; none if it is not there."""
        at = self.client.execute_command("PEXPIRETIME", key)
        assert at != -1, "a key without an expiry"
        return None if at == -2 else at - self.shift_ms
