"""Golden files, line by line: who is admitted, and when the key expires."""

from pathlib import Path

import pytest

from limits import NUMBERS, parse

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.txt"))
EXPIRES_MS_MAX = 1 << 52


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(script, path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    limits = [parse(line.removeprefix("limit: ")) for line in lines if line.startswith("limit: ")]
    keys = [b"key:%d" % place for place in range(len(limits))]
    for line in lines[len(limits) :]:
        question, answer = line.split(" -> ")
        now_us, cost = map(int, question.split())
        allowed, _, _, reset_after_ns, _ = answer.split()
        reply = script.plan(limits, keys, [cost] * len(limits), now_us)
        assert reply.errors == []
        assert reply.admitted == [allowed == "1"], line
        if len(limits) == 1 and int(reset_after_ns) > 0:
            resets_ms = -(-(now_us * 1000 + int(reset_after_ns)) // 10**6)
            assert script.expires_ms(keys[0]) == min(resets_ms, EXPIRES_MS_MAX), line


def test_all_algorithms_have_a_file():
    lines = [line for path in GOLDEN for line in path.read_text().splitlines()]
    limits = [parse(line.removeprefix("limit: ")) for line in lines if line.startswith("limit: ")]
    assert {limit.algorithm for limit in limits} == set(NUMBERS)
