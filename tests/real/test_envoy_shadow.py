"""Dry runs and shadow bans behind Envoy: visible to the upstream, hidden from clients."""

from harness.envoy import descriptor, get, statuses

SHOWN = "  - { name: shown, match: { user: { exists: true } }, key: [user], limit: 3 per hour }\n"
DRY = "  - { name: dry, match: { user: { exists: true } }, key: [user], limit: 1 per hour, action: shadow }\n"
BAN = "  - { name: ban, match: { user: mallory }, limit: 1 per hour, action: shadow_ban }\n"


def told(answer):
    """What Envoy tells a client about its limits, without seconds, which change while the test runs."""
    names = ["x-ratelimit-limit", "x-ratelimit-remaining"]
    return answer.status_code, *(answer.headers.get(name) for name in names)


def envoy_that_tells(tidegate, envoy, rules):
    """Envoy makes headers for clients from the statuses. Tidegate adds none."""
    server = tidegate("domain: edge\nrules:\n" + rules, flags=["--rls-details", "off"])
    return envoy(server, [descriptor("user")], ratelimit={"enable_x_ratelimit_headers": "DRAFT_VERSION_03"})


def test_what_a_dry_run_would_deny_passes_and_the_upstream_is_told(tidegate, envoy, upstream):
    rules = """
domain: edge
rules:
  - { name: dry, match: { user: { exists: true } }, key: [user], limit: 2 per hour, action: shadow }
"""
    edge = envoy(tidegate(rules), [descriptor("user")])
    answers = [get(edge, user="ann") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [seen.get("x-tidegate-decision") for seen in upstream.seen] == [None, None] + ["shadow_denied"] * 2
    assert upstream.seen[3]["x-tidegate-rule"] == "dry"
    assert not [name for name in answers[3].headers if "tidegate" in name.lower()]


def test_clients_are_told_the_same_with_a_dry_run_and_without(tidegate, envoy):
    without = envoy_that_tells(tidegate, envoy, SHOWN)
    with_dry_run = envoy_that_tells(tidegate, envoy, DRY + SHOWN)
    expected = [(200, left) for left in "210"] + [(429, "0")]
    for edge in [without, with_dry_run]:
        answers = [told(get(edge, user="ann")) for _ in expected]
        assert answers == [(status, '3, 3;w=3600;name="shown"', left) for status, left in expected]


def test_what_looks_on_alone_is_told_as_envoyproxy_ratelimit_does(tidegate, envoy):
    edge = envoy_that_tells(tidegate, envoy, DRY)
    assert [told(get(edge, user="ann")) for _ in range(3)] == [(200, '1, 1;w=3600;name="dry"', "0")] * 3


def test_who_is_shadow_banned_sees_success_and_the_upstream_is_told(tidegate, envoy, upstream):
    edge = envoy(tidegate("domain: edge\nrules:\n" + BAN), [descriptor("user")])
    first, second = get(edge, user="mallory"), get(edge, user="mallory")
    assert (first.status_code, second.status_code) == (200, 200)
    assert [seen.get("x-tidegate-decision") for seen in upstream.seen] == [None, "shadow_banned"]
    assert sorted(first.headers) == sorted(second.headers), "the client sees no difference"


def test_who_is_shadow_banned_is_told_of_every_limit_but_that_one(tidegate, envoy):
    alone = envoy_that_tells(tidegate, envoy, BAN)
    assert [told(get(alone, user="mallory")) for _ in range(3)] == [(200, None, None)] * 3

    without = envoy_that_tells(tidegate, envoy, SHOWN)
    with_ban = envoy_that_tells(tidegate, envoy, BAN + SHOWN)
    before = told(get(with_ban, user="mallory"))
    assert before == told(get(without, user="mallory")) == (200, '3, 3;w=3600;name="shown"', "2")
    # A ban charges no limit, so `remaining` stays the same and nothing is denied.
    banned = [get(with_ban, user="mallory") for _ in range(4)]
    assert [told(answer) for answer in banned] == [before] * 4
    assert all(1 <= int(answer.headers["x-ratelimit-reset"]) <= 1200 for answer in banned), "one of 3 per hour is used"
    # Other users are not affected.
    for edge in [without, with_ban]:
        assert [told(get(edge, user="ann"))[2] for _ in range(3)] == ["2", "1", "0"]


def test_what_clients_write_into_the_marks_can_be_taken_out_before(tidegate, envoy, upstream):
    """Envoy adds its headers to those of the client, so the edge must remove the client's first."""
    rules = """
domain: edge
rules:
  - { name: ban, match: { user: { exists: true } }, key: [user], limit: 1 per hour, action: shadow_ban }
"""
    strip = {
        "name": "strip",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {"request_mutations": [{"remove": "x-tidegate-decision"}, {"remove": "x-tidegate-rule"}]},
        },
    }
    edge = envoy(tidegate(rules), [descriptor("user")], filters=[strip])
    assert statuses(edge, 2, user="mallory", tidegate_decision="allowed", tidegate_rule="none") == [200, 200]
    assert [seen.get("x-tidegate-decision") for seen in upstream.seen] == [None, "shadow_banned"]
    assert upstream.seen[1]["x-tidegate-rule"] == "ban"
