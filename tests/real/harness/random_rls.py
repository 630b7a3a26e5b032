"""Random files in the format of envoyproxy/ratelimit, and requests that their descriptors often match.

Everything depends on the seed only. Keys and values have no `_`, and `*` is only at the end of a value:
test_envoy_ratelimit.py says why.
"""

import json

KEYS = ("user", "path", "plan")
VALUES = ("", "a", "ab", "abc", "b", "free", "*", "a*", "ab*")
UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000}
NAMES = ("first", "second", "third")
# All quotas have such a name, so that answers show which limits are quotas.
QUOTA_NAMES = ("quota 1", "quota 2", "quota 3")
DEPTH_MAX = 3


def random_file(random):
    """The descriptors of a file, as data."""
    return {"descriptors": random_descriptors(random, depth=1)}


def as_yaml(domain, file):
    # JSON is valid YAML.
    return json.dumps({"domain": domain, **file}, indent=1)


def random_descriptors(random, depth):
    pairs = [(key, value) for key in KEYS for value in VALUES]
    return [random_descriptor(random, *pair, depth) for pair in random.sample(pairs, random.randint(1, 6))]


def random_descriptor(random, key, value, depth):
    descriptor = {"key": key}
    if value:
        descriptor["value"] = value
    is_quota = random.random() < 0.15
    if random.random() < 0.75:
        descriptor["rate_limit"] = random_limit(random, QUOTA_NAMES if is_quota else (None, *NAMES))
    if is_quota:
        descriptor["quota_mode"] = True
    if depth < DEPTH_MAX and random.random() < 0.4:
        descriptor["descriptors"] = random_descriptors(random, depth + 1)
    for flag, probability in (
        ("shadow_mode", 0 if is_quota else 0.15),
        ("detailed_metric", 0.1),
        ("value_to_metric", 0.1),
        ("share_threshold", 0.5 if value.endswith("*") else 0),
    ):
        if random.random() < probability:
            descriptor[flag] = True
    return descriptor


def random_limit(random, names):
    name = random.choice(names)
    limit = {"name": name} if name else {}
    others = [other for other in (*NAMES, *QUOTA_NAMES) if other != name]
    if random.random() < 0.2:
        limit["replaces"] = [{"name": other} for other in random.sample(others, random.randint(1, 3))]
    if random.random() < 0.1:
        return {"unlimited": True, **limit}
    unit = random.choice(("minute", "minute", "hour", *UNITS))
    return {"unit": random.choice((unit, unit.upper())), "requests_per_unit": random_units(random), **limit}


def random_units(random):
    return random.choice((0, 1, 2, 3, 5, 10, 100, 2**32 - 1))


def random_request(random, domain, file, overrides):
    """A request as protojson. `overrides`: the units of limits that requests may bring. A request often repeats entries,
    so that several of its descriptors have the same counter: some with a limit of their own, some without."""
    chosen = [random_entries(random, file) for _ in range(random.choice((1, 1, 1, 2, 3, 5)))]
    while random.random() < 0.25:
        chosen.insert(random.randint(0, len(chosen)), random.choice(chosen))
    descriptors = [random_request_descriptor(random, *entries, overrides) for entries in chosen]
    request = {"domain": domain if random.random() < 0.97 else "unknown", "descriptors": descriptors}
    if random.random() < 0.3:
        request["hits_addend"] = random_hits(random)
    return request


def random_entries(random, file):
    """Entries, and the unit of the limit that the file has on their way."""
    entries, unit, level = [], None, file
    while level.get("descriptors") and (not entries or random.random() < 0.8):
        level = random.choice(level["descriptors"])
        unit = level.get("rate_limit", {}).get("unit", unit)
        entries.append({"key": level["key"], "value": matching_value(random, level.get("value", ""))})
    if random.random() < 0.05:
        entries.append({"key": random.choice((*KEYS, "other")), "value": random.choice(("", "a", "z"))})
    return entries, unit


def random_request_descriptor(random, entries, unit, overrides):
    descriptor = {"entries": entries}
    if overrides and random.random() < 0.2:
        descriptor["limit"] = random_override(random, unit, overrides)
    if random.random() < 0.25:
        descriptor["hits_addend"] = random_hits(random)
    return descriptor


def matching_value(random, value):
    if not value:
        return random.choice(("", "a", "c", "free"))
    return value.replace("*", random.choice(("", "b", "bc", "zz")))


def random_override(random, configured, units):
    """Often of the configured unit, because such an override shares the counter."""
    configured = (configured or "year").lower()
    unit = configured if configured in units and random.random() < 0.5 else random.choice(units)
    return {"unit": unit.upper(), "requests_per_unit": random_units(random)}


def random_hits(random):
    return random.choice((0, 0, 1, 1, 2, 3, 7, 1000))
