"""Waiting for a thing itself, with a deadline: nothing here sleeps for a while and hopes.

Deadlines are for what never happens. None says how fast something is: machines are slow at times, and stop for seconds.
"""

import time

DEADLINE_S = 120.0
PAUSE_S = 0.01


def wait_for(what, holds, deadline_s=DEADLINE_S):
    """Asks `holds` until what it says is true and hands that back. `what` is for the message if it never is."""
    until = time.monotonic() + deadline_s
    while True:
        last = holds()
        if last:
            return last
        if time.monotonic() > until:
            raise AssertionError(f"after {deadline_s} s, still not: {what} (last: {last!r})")
        time.sleep(PAUSE_S)
