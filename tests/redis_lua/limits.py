"""Limits as golden files write them, and the terms that the script is handed for them.

This is the arithmetic that stays outside of Lua: what depends only on a limit and a cost, in integers of any size.
"""

import re
import struct
from dataclasses import dataclass

import calendars

US = 1_000
DAY_NS = 86_400_000_000_000
EXACT_MAX = 1 << 53
# Buckets that reach further than this have terms of days.
NARROW_US_MAX = 1 << 51
# More than every limit; a larger cost decides the same.
COST_MAX = 1 << 42

LOOKS_ON, COUNTS_DENIED, IS_FREE = 1, 2, 4

NUMBERS = {
    "gcra": 1,
    "token_bucket": 2,
    "leaky_bucket": 3,
    "fixed_window": 4,
    "sliding_window": 5,
    "sub_windows": 6,
    "sliding_log": 7,
    "concurrency": 8,
}
GCRA_WIDE, NOTHING = 9, 10

UNITS_NS = {"ns": 1, "us": 1_000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": DAY_NS}
WORDS_NS = {"day": DAY_NS, "week": 7 * DAY_NS, "month": 30 * DAY_NS}


@dataclass(frozen=True)
class Limit:
    algorithm: str
    limit: int
    window_ns: int
    burst: int = 0
    sub_windows: int = 60
    strict: bool = True
    count_denied: bool = False
    min_interval_ns: int = 0
    align: str = "epoch"
    calendar: calendars.Calendar | None = None


def parse(text):
    """The limit that a `limit:` line is about, without the word."""
    calendar_text = re.search(r"align: \{(.*?)\}", text)
    plain = text.replace(calendar_text.group(0), "align: calendar") if calendar_text else text
    fields = dict(field.split(": ") for field in plain.strip().strip("{}").split(", "))
    algorithm, limit = fields["algorithm"], int(fields["limit"])
    calendar = None
    if calendar_text:
        details = dict(field.split(": ") for field in calendar_text.group(1).split(", "))
        calendar = calendars.Calendar(
            unit=fields["per"],
            zone=details["tz"],
            week_starts=details.get("week_starts", "monday"),
            day_of_month=int(details.get("day_of_month", 1)),
        )
    # A queue of Q is a burst of Q + 1.
    burst = int(fields.get("queue", limit)) + 1 if algorithm == "leaky_bucket" else int(fields.get("burst", limit))
    return Limit(
        algorithm,
        limit,
        duration_ns(fields["ttl" if algorithm == "concurrency" else "per"]),
        burst=burst,
        sub_windows=int(fields.get("sub_windows", 60)),
        strict=fields.get("strict", "true") == "true",
        count_denied=fields.get("count_denied") == "true",
        min_interval_ns=duration_ns(fields.get("min_interval", "0ns")),
        align=fields.get("align", "epoch"),
        calendar=calendar,
    )


def duration_ns(text):
    if text in WORDS_NS:
        return WORDS_NS[text]
    digits, unit = re.fullmatch(r"(\d+)([a-z]+)", text).groups()
    return int(digits) * UNITS_NS[unit]


def term(limit, cost, *, looks_on=False, now_us=0):
    """The bytes of a limit with a cost. Only a calendar depends on about what time it is."""
    flags = LOOKS_ON * looks_on | COUNTS_DENIED * limit.count_denied | IS_FREE * (cost == 0)
    number = NUMBERS[limit.algorithm]
    if limit.algorithm in ("gcra", "token_bucket", "leaky_bucket"):
        number, fields = bucket_fields(limit, cost, number)
    else:
        fields = FIELDS[limit.algorithm](limit, min(cost, COST_MAX), now_us)
    assert all(0 <= field <= EXACT_MAX for field in fields), fields
    return struct.pack(f"<BB{len(fields)}d", number, flags, *fields)


def bucket_fields(limit, cost, number):
    if limit.limit == 0:
        return NOTHING, []
    if limit.burst * limit.window_ns // limit.limit // US >= NARROW_US_MAX:
        # Twice the burst never fits either, and days of it are still below 2^53.
        cost = min(cost, 2 * limit.burst)
        return GCRA_WIDE, [limit.limit, *wide_span(limit, cost), *wide_span(limit, limit.burst)]
    return number, [limit.limit, *narrow_span(limit, cost), *narrow_span(limit, limit.burst)]


def narrow_span(limit, units):
    """units*W/L in whole microseconds and a fraction over 1000*L."""
    us, fraction = divmod(units * limit.window_ns, 1000 * limit.limit)
    return (us, fraction) if us < EXACT_MAX else (EXACT_MAX, 0)


def wide_span(limit, units):
    """units*W/L in days, nanoseconds of a day and a remainder over L."""
    ns, rest = divmod(units * limit.window_ns, limit.limit)
    return (*divmod(ns, DAY_NS), rest)


def fixed_window_fields(limit, cost, now_us):
    if limit.align == "calendar":
        return [limit.limit, cost, 2, *limit.calendar.edges_us(now_us)]
    return [limit.limit, cost, int(limit.align == "first_hit"), *divmod(limit.window_ns, US)]


def sliding_window_fields(limit, cost, _now_us):
    return [limit.limit, cost, *divmod(limit.window_ns, US)]


def sub_windows_fields(limit, cost, _now_us):
    return [limit.limit, cost, *divmod(limit.window_ns, US), limit.sub_windows, int(limit.strict)]


def sliding_log_fields(limit, cost, _now_us):
    return [limit.limit, cost, -(-limit.window_ns // US), -(-limit.min_interval_ns // US)]


def concurrency_fields(limit, cost, _now_us):
    return [limit.limit, min(cost, 1 << 40), *divmod(limit.window_ns, US)]


FIELDS = {
    "fixed_window": fixed_window_fields,
    "sliding_window": sliding_window_fields,
    "sub_windows": sub_windows_fields,
    "sliding_log": sliding_log_fields,
    "concurrency": concurrency_fields,
}
