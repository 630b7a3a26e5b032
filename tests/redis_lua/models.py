"""The plainest model of each algorithm: fractions, lists and integers of any size, times in nanoseconds.

A model forgets nothing because time passed. Whoever compares it asks what is still live.
"""

from fractions import Fraction

UNITS_MAX = (1 << 40) - 1
US = 1_000


def ceil_div(a, b):
    return -(-a // b)


class Model:
    """A key of one limit."""

    def __init__(self, limit):
        self.limit = limit
        self.forget()

    def charge_over(self, now_ns, cost):
        self.charge(now_ns, cost)

    def settle(self, now_ns, cost, *, fits, is_admitted):
        if cost > 0 and (is_admitted or self.limit.count_denied):
            (self.charge_over if is_admitted and not fits else self.charge)(now_ns, cost)

    def began_after(self, _instant_ns):
        return False


class Bucket(Model):
    def forget(self):
        self.arrival = None

    def span(self, units):
        return Fraction(units * self.limit.window_ns, self.limit.limit)

    def start(self, now_ns):
        return max(self.arrival or 0, Fraction(now_ns))

    def fits(self, now_ns, cost):
        if self.limit.limit == 0:
            return cost == 0
        return self.start(now_ns) + self.span(cost) <= now_ns + self.span(self.limit.burst)

    def charge(self, now_ns, cost):
        if self.limit.limit > 0:
            self.arrival = self.start(now_ns) + self.span(cost)

    def charge_over(self, now_ns, _cost):
        if self.limit.limit > 0:
            self.arrival = max(self.start(now_ns), now_ns + self.span(self.limit.burst))

    def refund(self, now_ns, cost):
        if self.limit.limit == 0 or self.arrival is None:
            return
        back = self.arrival - self.span(cost)
        self.arrival = back if back >= now_ns else None

    def ends_ns(self):
        return self.arrival and ceil_div(self.arrival.numerator, self.arrival.denominator)

    def live(self, now_ns):
        return self.arrival if self.arrival is not None and self.arrival > now_ns else None


class FixedWindow(Model):
    def forget(self):
        self.end_ns, self.used = None, 0

    def new_end(self, now_ns):
        window = self.limit.window_ns
        return now_ns + window if self.limit.align == "first_hit" else now_ns // window * window + window

    def live(self, now_ns):
        return (self.end_ns, self.used) if self.end_ns is not None and now_ns < self.end_ns else None

    def fits(self, now_ns, cost):
        return (self.live(now_ns) or (0, 0))[1] + cost <= self.limit.limit

    def charge(self, now_ns, cost):
        end_ns, used = self.live(now_ns) or (self.new_end(now_ns), 0)
        self.end_ns, self.used = end_ns, min(used + cost, UNITS_MAX + 1)

    def refund(self, now_ns, cost):
        if self.live(now_ns) and self.used > cost:
            self.used -= cost
        else:
            self.forget()

    def began_after(self, instant_ns):
        return self.live(instant_ns) is not None and self.new_end(instant_ns) < self.end_ns

    def ends_ns(self):
        return self.end_ns


class SlidingWindow(Model):
    def forget(self):
        self.windows = None

    def seen_from(self, now_ns):
        number = now_ns // self.limit.window_ns
        if self.windows is None:
            return number, 0, 0
        held, prev, cur = self.windows
        if held >= number:
            return self.windows
        return (number, cur, 0) if held == number - 1 else (number, 0, 0)

    def live(self, now_ns):
        number, prev, cur = self.seen_from(now_ns)
        return (number, prev, cur) if prev + cur else None

    def fits(self, now_ns, cost):
        window = self.limit.window_ns
        number, prev, cur = self.seen_from(now_ns)
        into = max(now_ns - number * window, 0)
        return prev * (window - into) + (cur + cost) * window <= self.limit.limit * window

    def charge(self, now_ns, cost):
        number, prev, cur = self.seen_from(now_ns)
        self.windows = number, prev, min(cur + cost, UNITS_MAX)

    def refund(self, now_ns, cost):
        if self.windows is None:
            return
        number, prev, cur = self.seen_from(now_ns)
        prev, cur = max(prev - max(cost - cur, 0), 0), max(cur - cost, 0)
        self.windows = (number, prev, cur) if prev + cur else None

    def began_after(self, instant_ns):
        return self.windows is not None and self.seen_from(instant_ns)[0] * self.limit.window_ns > instant_ns

    def ends_ns(self):
        if self.windows is None:
            return None
        number, _, cur = self.windows
        return (number + (2 if cur else 1)) * self.limit.window_ns


class Ledger(Model):
    """Entries of a stamp and units, oldest first."""

    def forget(self):
        self.entries = []

    def stamp(self, now_ns):
        return max([self.stamp_of(now_ns), *(stamp for stamp, _ in self.entries[-1:])])

    def used(self, now_ns):
        oldest = self.oldest(self.stamp(now_ns))
        return sum(units for stamp, units in self.entries if stamp >= oldest)

    def live(self, now_ns):
        oldest = self.oldest(self.stamp(now_ns))
        return [entry for entry in self.entries if entry[0] >= oldest] or None

    def fits(self, now_ns, cost):
        return self.used(now_ns) + cost <= self.limit.limit

    def charge(self, now_ns, cost):
        stamp, most = self.stamp(now_ns), self.limit.limit + 1
        entries = [entry for entry in self.entries if entry[0] >= self.oldest(stamp)]
        held = entries.pop()[1] if entries and entries[-1][0] == stamp else 0
        entries.append((stamp, min(held + cost, most)))
        while sum(units for _, units in entries[1:]) >= most:
            entries.pop(0)
        self.entries = entries

    def refund(self, _now_ns, cost):
        while self.entries and cost > 0:
            stamp, units = self.entries.pop()
            if units > cost:
                self.entries.append((stamp, units - cost))
            cost -= units


class SlidingLog(Ledger):
    def stamp_of(self, now_ns):
        return now_ns

    def oldest(self, stamp):
        return stamp - self.limit.window_ns + 1

    def fits(self, now_ns, cost):
        spaced = not self.entries or self.stamp(now_ns) - self.entries[-1][0] >= self.limit.min_interval_ns
        return spaced and super().fits(now_ns, cost)

    def ends_ns(self):
        return self.entries[-1][0] + self.limit.window_ns if self.entries else None


class SubWindows(Ledger):
    def stamp_of(self, now_ns):
        return now_ns * self.limit.sub_windows // self.limit.window_ns

    def reach(self):
        return self.limit.sub_windows - (0 if self.limit.strict else 1)

    def oldest(self, stamp):
        return stamp - self.reach()

    def ends_ns(self):
        if not self.entries:
            return None
        return ceil_div((self.entries[-1][0] + self.reach() + 1) * self.limit.window_ns, self.limit.sub_windows)


class Concurrency(Model):
    """Leases of (expires_ns, fence, units, owner), and two numbers that outlast them."""

    def forget(self):
        self.leases, self.last_fence, self.written_ns = [], 0, 0

    def instant(self, now_ns):
        return max(self.written_ns, now_ns)

    def next_fence(self, now_ns):
        return max(self.last_fence + 1, self.instant(now_ns) // US)

    def live(self, now_ns):
        return [lease for lease in self.leases if lease[0] > self.instant(now_ns)] or None

    def fits(self, now_ns, cost):
        return sum(units for _, _, units, _ in self.live(now_ns) or []) + cost <= self.limit.limit

    def hold(self, now_ns, expires_ns, fence, units, owner):
        self.leases = sorted([*(self.live(now_ns) or []), (expires_ns, fence, units, owner)])
        self.written_ns, self.last_fence = self.instant(now_ns), max(self.last_fence, fence)

    def charge(self, now_ns, cost):
        # More than every limit is more than every limit.
        units = min(cost, UNITS_MAX + 1)
        self.hold(now_ns, self.instant(now_ns) + self.limit.window_ns, self.next_fence(now_ns), units, bytes(16))

    def release(self, now_ns, fence, owner):
        """The units that were held; none if this owner holds nothing by this fence."""
        live = self.live(now_ns) or []
        found = [lease for lease in live if lease[1] == fence and lease[3] == owner and owner != bytes(16)]
        if not found:
            return None
        self.leases = [lease for lease in live if lease not in found]
        self.written_ns = self.instant(now_ns)
        return found[0][2]

    def forget_if_idle(self):
        if not self.leases and self.last_fence < self.written_ns // US:
            self.forget()

    def refund(self, _now_ns, _cost):
        pass

    def ends_ns(self):
        if not self.leases and self.last_fence == 0:
            return None
        return max([(self.last_fence + 1) * US, *(expires_ns for expires_ns, *_ in self.leases)])


MODELS = {
    "gcra": Bucket,
    "token_bucket": Bucket,
    "leaky_bucket": Bucket,
    "fixed_window": FixedWindow,
    "sliding_window": SlidingWindow,
    "sub_windows": SubWindows,
    "sliding_log": SlidingLog,
    "concurrency": Concurrency,
}


def model(limit):
    return MODELS[limit.algorithm](limit)
