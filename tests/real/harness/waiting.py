"""Waits for a condition, with a deadline. No test sleeps for a fixed time.

A deadline only ends a test that would wait forever. It asserts no speed, because machines can stop for seconds.
"""

import time

DEADLINE_S = 120.0
PAUSE_S = 0.01


def wait_for(what, holds, deadline_s=DEADLINE_S):
    """Calls `holds` until its result is true and returns that. `what` is for the error message."""
    until = time.monotonic() + deadline_s
    while True:
        last = holds()
        if last:
            return last
        if time.monotonic() > until:
            raise AssertionError(f"after {deadline_s} s, still not: {what} (last: {last!r})")
        time.sleep(PAUSE_S)
