"""The tables "you want / you write / at most in any window": floods at the worst instants reach each figure, and never exceed it."""

import re

import pytest

SECOND, MINUTE, HOUR, DAY = 10**9, 60 * 10**9, 3_600 * 10**9, 86_400 * 10**9
WINDOWS = {"second": SECOND, "59 s": 59 * SECOND, "minute": MINUTE, "60 minutes": HOUR, "24 hours": DAY}
FIGURE = re.compile(rf"([\d,]+) (leave )?in any ({'|'.join(WINDOWS)})")
# An instant at which a window of each of these lengths begins.
EPOCH = 20_000 * DAY
# Worst cases of a moment or of leases, not of a window.
NOT_A_WINDOW = ("concurrency", "per: month")


def rows(page):
    """The limits of each row, and its figures: (units, whether they leave or are accepted, the window)."""
    table = page.read_text().split("| you want | you write | at most in any window |\n|---|---|---|\n")[1].split("\n\n")[0]
    for row in table.splitlines():
        _, _, write, most, _ = row.split("|")
        if any(word in write for word in NOT_A_WINDOW):
            continue
        figures = [(units, "leaves" if leave else "accepted", WINDOWS[window]) for units, leave, window in FIGURE.findall(most)]
        figures += [(units, "accepted", figures[0][2]) for units in re.findall(r"([\d,]+) are accepted", most)]
        assert figures, row
        yield re.findall(r"`(.+?)`", write), [(int(units.replace(",", "")), *rest) for units, *rest in figures]


def attacks(window, limit):
    """Instants of requests: floods at edges of windows and of their sixtieths, and a request whenever a unit may be free again."""
    sub_window, flood = window // 60, 2 * limit + 1
    for start in (EPOCH, EPOCH + window - 1, EPOCH + window - 2, EPOCH + sub_window - 1):
        yield [start] * flood + [start + number * window // limit for number in range(1, limit + 1)]
        for after in (1, sub_window, window - sub_window, window - sub_window + 1, window - 2, window - 1, window):
            yield [start] * flood + [start + after] * flood
            # One request opens a window that begins with the first request.
            yield [start - 1] + [start + window - 2] * flood + [start + window - 2 + after] * flood
    # Next to a limit per second, only a steady stream uses up a daily quota.
    yield [EPOCH + number * window // 50_000 for number in range(50_000)]


def fullest(instants, window):
    """The most of them in any span that includes its start and excludes its end."""
    instants, first, most = sorted(instants), 0, 0
    for last, instant in enumerate(instants):
        while instants[first] <= instant - window:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("page", ["README.md", "docs/rules.md"])
def test_the_table_has_the_exact_worst_case(root, binary, run, page):
    tested = 0
    for limits, figures in rows(root / page):
        flags = [part for limit in limits for part in ("--limit", limit)]
        for units, what, window in figures:
            # 100,000 units take long, and strict sub-windows have no other edges at that size.
            if units > 10_000:
                continue
            requests = [(at, key) for key, attack in enumerate(attacks(window, min(units, 1_000))) for at in attack]
            trace = "".join(f"{at} {key} 1\n" for at, key in requests)
            said = run(binary, "trace", *flags, "--decisions", "-", input=trace).stdout.splitlines()
            admitted = {}
            for (at, key), line in zip(requests, said, strict=True):
                allowed, _, _, delay = map(int, line.split())
                if allowed:
                    admitted.setdefault(key, []).append(at + delay * (what == "leaves"))
            assert max(fullest(instants, window) for instants in admitted.values()) == units, (limits, what, window)
            tested += 1
    assert tested >= 8
