"""The same random files and requests into Tidegate and envoyproxy/ratelimit: every field of the answers is equal.

A failure prints the seed. `--differential-seed` repeats a run, `--differential-files` sets the number of files.

Where Tidegate differs on purpose (docs/envoy.md has the same list), the test translates the answer or does not send it:

- Quotas: this version of envoyproxy/ratelimit never denies by a quota. It answers OK, without a time, for a descriptor
  over its quota. Tidegate does what newer versions do: `with_newer_quotas` translates.
- A descriptor with both `quota_mode` and `shadow_mode` is only a dry run in Tidegate.
- `*` within a value: this version supports it only at the end of a value, newer versions and Tidegate anywhere.
- `_` in keys and values: envoyproxy/ratelimit compares `key_value` as one text, so different descriptors may be one.
- In envoyproxy/ratelimit, an override shares a counter with a limit of another unit if both windows begin at the same
  time (`separate_units`), and an override without a unit stops the process.
- A node with a shared store may deny from memory, and Redis does not count these hits. An override that shares the
  counter would show it, so requests have none there.
- Headers and dynamic metadata for clients are off in both (`--rls-details off`).
"""

import json
import random
import time
from collections import namedtuple

import grpc
import pytest
from google.protobuf import json_format
from harness.asking import SERVICE, Reflected
from harness.envoy_ratelimit import EnvoyRatelimit
from harness.random_rls import QUOTA_NAMES, UNITS, as_yaml, random_file, random_request
from harness.waiting import DEADLINE_S, wait_for

REQUESTS_PER_FILE = 60
DIFFERENCES_SHOWN_MAX = 3
# How far the clocks of two processes of one machine may be apart. Tidegate follows the system's clock smoothly.
CLOCK_MARGIN_S = 0.05
# A run takes less than this.
RUN_S = 600


class Case(namedtuple("Case", "domain file seed")):
    @classmethod
    def random(cls, seed, domain):
        return cls(domain, random_file(random.Random(seed)), seed)


class Clock:
    """The seconds that a process may have read during a call."""

    def __init__(self, before, after):
        self.earliest, self.latest = before - CLOCK_MARGIN_S, after + CLOCK_MARGIN_S

    def is_in_one_window(self):
        """Whether no window can have ended during the call."""
        shortest = min(UNITS.values())
        return self.earliest // shortest == self.latest // shortest

    def resets(self, seconds):
        """What `duration_until_reset` may be."""
        return range(seconds - int(self.latest) % seconds, seconds - int(self.earliest) % seconds + 1)


STOP = {"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "true"}


def test_counting_every_hit(compare):
    compare()


def test_sparing_the_others_when_one_is_over(compare):
    compare(["--counting", "upstream_stop"], env=STOP)


def test_global_shadow(compare):
    compare(["--global-shadow"], env={"SHADOW_MODE": "true"}, is_shadow=True)


def test_counting_in_a_shared_store(compare, redis_server):
    compare(["--store", redis_server().url, "--store-timeout", "10s"], overrides=[])


def test_sparing_the_others_in_a_shared_store(compare, redis_server):
    store = ["--store", redis_server().url, "--store-timeout", "10s"]
    compare([*store, "--counting", "upstream_stop"], env=STOP, overrides=[])


@pytest.fixture
def compare(request, tidegate, redis_server, kept, parts, closing, tmp_path):
    seed = request.config.getoption("--differential-seed")
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    files = request.config.getoption("--differential-files")

    def run(flags=(), env=None, *, overrides=None, is_shadow=False):
        print(f"--differential-seed={seed} --differential-files={files}")
        cases = [Case.random(f"{seed} {number}", f"case{number}") for number in range(files)]
        # Each file has a second domain, to repeat a case in which a window ended between the two servers.
        texts = {f"{name}.yaml": as_yaml(name, case.file) for case in cases for name in domains(case)}
        rules = tmp_path / "rules"
        rules.mkdir()
        for name, text in texts.items():
            (rules / name).write_text(text)
        server = tidegate(flags=["--rules", rules, "--rls-details", "off", *flags])
        upstream = kept(EnvoyRatelimit, parts / "bin/envoy-ratelimit", redis_server(), texts, env=env)
        ours = closing(Reflected(server.grpc))
        theirs = closing(Reflected(upstream.grpc, ours))
        calls = [each.method(SERVICE, "ShouldRateLimit") for each in (ours, theirs)]
        overrides = separate_units() if overrides is None else overrides
        differences = [found for case in cases if (found := compare_case(case, calls, overrides, is_shadow))]
        shown = "\n\n".join(differences[:DIFFERENCES_SHOWN_MAX])
        assert not differences, f"{len(differences)} of {files} files, {flags}, --differential-seed={seed}\n{shown}"

    return run


def domains(case):
    return case.domain, f"{case.domain}-again"


def compare_case(case, calls, overrides, is_shadow):
    """Returns the first difference as text, or None. `overrides`: the units of limits in requests."""
    for domain in domains(case):
        found = compare_requests(case, domain, calls, overrides, is_shadow)
        if found is not WINDOW_ENDED:
            return found
        wait_for("the window has begun in both servers", lambda: Clock(time.time(), time.time()).is_in_one_window())
    raise AssertionError("a window ended twice within a minute")


# The case must be repeated.
WINDOW_ENDED = object()
# A time that this version of envoyproxy/ratelimit leaves out.
WINDOW_END = "window end"


def compare_requests(case, domain, calls, overrides, is_shadow):
    # The requests, like the file, depend on the seed only.
    chosen = random.Random(f"{case.seed} requests")
    sent = []
    for _ in range(REQUESTS_PER_FILE):
        request = random_request(chosen, domain, case.file, overrides)
        sent.append(request)
        before = time.time()
        answers = [ask(call, request) for call in calls]
        clock = Clock(before, time.time())
        if not clock.is_in_one_window():
            return WINDOW_ENDED
        ours, theirs = answers
        theirs = with_newer_quotas(theirs, is_shadow)
        if problems := list(differences(ours, theirs, clock)):
            return "\n".join([*problems, *shown(case.file, sent, ours, theirs)])
    return None


def ask(call, request):
    """The answer as protojson, or `error`."""
    try:
        answer = call(request, timeout=DEADLINE_S)
    except grpc.RpcError as error:
        return {"error": str(error.code())}
    return json_format.MessageToDict(answer, preserving_proto_field_name=True)


def differences(ours, theirs, clock):
    """All fields that are not equal. Times must be those of the window, because the clock moves between the calls."""
    for field in sorted({*ours, *theirs} - {"statuses"}):
        if ours.get(field) != theirs.get(field):
            yield f"{field}: {ours.get(field)} instead of {theirs.get(field)}"
    if len(ours.get("statuses", ())) != len(theirs.get("statuses", ())):
        yield "a different number of statuses"
    for index, (our, their) in enumerate(zip(ours.get("statuses", ()), theirs.get("statuses", ()))):
        for field in sorted({*our, *their} - {"duration_until_reset"}):
            if our.get(field) != their.get(field):
                yield f"statuses[{index}].{field}: {our.get(field)} instead of {their.get(field)}"
        if ("duration_until_reset" in our) != ("duration_until_reset" in their):
            yield f"statuses[{index}].duration_until_reset: {our} instead of {their}"
        elif "duration_until_reset" in our:
            resets = [f"{each}s" for each in clock.resets(UNITS[their["current_limit"]["unit"].lower()])]
            for each in (our, their):
                if each["duration_until_reset"] not in (*resets, WINDOW_END):
                    yield f"statuses[{index}].duration_until_reset: {each}, but the window has {resets} left"


def with_newer_quotas(answer, is_shadow):
    """What newer versions of envoyproxy/ratelimit answer: they deny if all quotas of a request are exceeded."""
    quotas = [each for each in answer.get("statuses", ()) if each.get("current_limit", {}).get("name") in QUOTA_NAMES]
    exceeded = [each for each in quotas if "duration_until_reset" not in each]
    for each in exceeded:
        each |= {"code": "OVER_LIMIT", "duration_until_reset": WINDOW_END}
    if exceeded and exceeded == quotas and not is_shadow:
        answer["overall_code"] = "OVER_LIMIT"
    return answer


def shown(file, sent, ours, theirs):
    yield json.dumps(file)
    yield from (f"sent: {json.dumps(request)}" for request in sent)
    yield f"Tidegate:             {json.dumps(ours)}"
    yield f"envoyproxy/ratelimit: {json.dumps(theirs)}"


def separate_units():
    """The units whose windows never begin together with those of another unit while the test runs. Envoy's type for
    overrides has no week."""
    now = int(time.time())
    times = range(now - now % 60, now + RUN_S, 60)
    return [
        unit
        for unit in UNITS
        if unit != "week"
        and all(start(unit, at) != start(other, at) for other in UNITS if other != unit for at in times)
    ]


def start(unit, at):
    return at - at % UNITS[unit]
