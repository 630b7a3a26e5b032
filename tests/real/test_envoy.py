"""Envoy's rate limit filter with Tidegate: the view of clients, the upstream and Envoy's access log."""

import time

from harness.envoy import descriptor, get, statuses
from harness.waiting import wait_for

PER_USER = """
domain: edge
rules:
  - name: per-user
    match: { user: { exists: true } }
    key: [user]
    limit: 3 per hour
"""


def test_200_until_exactly_the_limit_then_429(tidegate, envoy, upstream):
    edge = envoy(tidegate(PER_USER), [descriptor("user")])
    assert statuses(edge, 5, user="ann") == [200, 200, 200, 429, 429]
    assert len(upstream.seen) == 3
    assert statuses(edge, 4, user="bob") == [200, 200, 200, 429], "each user has an own limit"
    assert statuses(edge, 5) == [200] * 5, "without the header Envoy does not ask"


def test_rate_limits_of_the_route_itself(tidegate, envoy):
    edge = envoy(tidegate(PER_USER), [descriptor("user")])
    assert statuses(edge, 4, "on-the-route", user="ann") == [200, 200, 200, 429]


def test_headers_that_tidegate_adds(tidegate, envoy):
    edge = envoy(tidegate(PER_USER), [descriptor("user")])
    passed = get(edge, user="ann").headers
    assert "retry-after" not in passed and "x-tidegate-decision" not in passed
    statuses(edge, 2, user="ann")

    denied = get(edge, user="ann")
    assert denied.status_code == 429
    # 3 per hour is one every 20 minutes.
    assert 1 <= int(denied.headers["retry-after"]) <= 1200
    assert denied.headers["x-ratelimit-limit"] == "3"
    assert denied.headers["x-ratelimit-remaining"] == "0"
    assert denied.headers["ratelimit-policy"] == '"per-user/1";q=3;w=3600'
    assert denied.headers["ratelimit"].startswith('"per-user/1";r=0;t=')
    assert denied.headers["x-tidegate-decision"] == "denied"
    assert denied.headers["x-tidegate-rule"] == "per-user"
    assert denied.headers["x-envoy-ratelimited"] == "true"


def test_headers_that_tidegate_adds_to_every_answer_if_asked(tidegate, envoy):
    edge = envoy(tidegate(PER_USER, flags=["--rls-details", "all"]), [descriptor("user")])
    passed = get(edge, user="ann").headers
    assert passed["x-ratelimit-limit"] == "3"
    assert passed["x-ratelimit-remaining"] == "2"


def test_headers_that_envoy_makes_of_the_statuses(tidegate, envoy):
    server = tidegate(PER_USER, flags=["--rls-details", "off"])
    edge = envoy(server, [descriptor("user")], ratelimit={"enable_x_ratelimit_headers": "DRAFT_VERSION_03"})
    passed = get(edge, user="ann").headers
    assert passed["x-ratelimit-limit"] == '3, 3;w=3600;name="per-user"'
    assert passed["x-ratelimit-remaining"] == "2"
    assert 1 <= int(passed["x-ratelimit-reset"]) <= 1200
    statuses(edge, 2, user="ann")
    denied = get(edge, user="ann")
    assert denied.status_code == 429
    assert denied.headers["x-ratelimit-remaining"] == "0"


def test_a_request_that_one_descriptor_denies_charges_nothing_to_the_other(tidegate, envoy):
    rules = """
domain: edge
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 2 per hour }
  - { name: per-team, match: { team: { exists: true } }, key: [team], limit: 4 per hour }
"""
    edge = envoy(tidegate(rules), [descriptor("user"), descriptor("team")])
    assert statuses(edge, 6, user="ann", team="red") == [200, 200, 429, 429, 429, 429]
    assert statuses(edge, 3, user="bob", team="red") == [200, 200, 429], "both the team and bob have 2 left"
    assert get(edge, user="eve", team="red").status_code == 429, "the team has none left"
    assert statuses(edge, 2, user="eve", team="blue") == [200, 200], "the denied request cost eve nothing"


def test_several_entries_in_one_descriptor(tidegate, envoy):
    rules = """
domain: edge
rules:
  - name: per-user-and-plan
    match: { user: { exists: true }, plan: free }
    key: [user, plan]
    limit: 1 per hour
"""
    edge = envoy(tidegate(rules), [descriptor("plan", "user")])
    assert statuses(edge, 2, user="ann", plan="free") == [200, 429]
    assert statuses(edge, 3, user="ann", plan="paid") == [200, 200, 200]


def test_soft_limits_pass_and_are_marked_for_both(tidegate, envoy, upstream):
    rules = """
domain: edge
rules:
  - name: gentle
    match: { user: { exists: true } }
    key: [user]
    limit: 2 per hour
    action: { soft: { margin: 50% } }
"""
    edge = envoy(tidegate(rules), [descriptor("user")])
    answers = [get(edge, user="ann") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[2].headers["x-tidegate-decision"] == "soft"
    assert upstream.seen[2]["x-tidegate-decision"] == "soft"


def test_a_leaky_bucket_says_for_how_long_to_hold_the_request(tidegate, envoy, upstream):
    rules = """
domain: edge
rules:
  - name: even
    match: { user: { exists: true } }
    key: [user]
    limit: { limit: 1, per: 1h, algorithm: leaky_bucket, queue: 3 }
"""
    edge = envoy(tidegate(rules), [descriptor("user")])
    assert statuses(edge, 2, user="ann") == [200, 200]
    delayed = upstream.seen[1]
    assert delayed["x-tidegate-decision"] == "delayed"
    assert 1 <= int(delayed["x-tidegate-delay-ms"]) <= 3_600_000


def test_a_rule_that_delays_holds_the_answer(tidegate, envoy):
    rules = """
domain: edge
rules:
  - name: held
    match: { user: { exists: true } }
    key: [user]
    limit: { limit: 5, per: 1s, burst: 1 }
    action: { delay: { max_wait: 1h } }
"""
    edge = envoy(tidegate(rules), [descriptor("user")])
    began = time.monotonic()
    assert statuses(edge, 4, user="ann") == [200] * 4
    # One passes immediately, and each of the others at least 0.2 s after the one before.
    assert time.monotonic() - began >= 0.59


def test_a_file_for_envoyproxy_ratelimit_as_it_is(tidegate, envoy, upstream):
    rules = """
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: user
    value: vip
    rate_limit: { unlimited: true }
  - key: user
    value: "bot-*"
    rate_limit: { unit: YEAR, requests_per_unit: 1, name: bots }
  - key: team
    descriptors:
      - key: operation
        value: write
        rate_limit: { unit: month, requests_per_unit: 1 }
      - key: operation
        shadow_mode: true
        rate_limit: { unit: month, requests_per_unit: 1 }
"""
    edge = envoy(tidegate(rules), [descriptor("user"), descriptor("team", "operation")])
    assert statuses(edge, 4, user="ann") == [200, 200, 200, 429]
    assert statuses(edge, 6, user="vip") == [200] * 6
    assert statuses(edge, 2, user="bot-7") == [200, 429]
    assert statuses(edge, 2, user="bot-8") == [200, 429], "each value of a wildcard has its own counter"
    assert statuses(edge, 2, team="red", operation="write") == [200, 429]
    assert statuses(edge, 2, team="red", operation="read") == [200, 200]
    assert upstream.seen[-1]["x-tidegate-decision"] == "shadow_denied"


def test_a_limit_that_envoy_brings_along_overrides_the_rules(tidegate, envoy):
    gold = {
        "name": "limits",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
            "metadata": [
                {"metadata_namespace": "limits", "value": {"gold": {"requests_per_unit": 5, "unit": "YEAR"}}}
            ],
        },
    }
    override = {"dynamic_metadata": {"metadata_key": {"key": "limits", "path": [{"key": "gold"}]}}}
    edge = envoy(
        tidegate(PER_USER, flags=["--rls-details", "off"]),
        [descriptor("user", limit=override)],
        filters=[gold],
        ratelimit={"enable_x_ratelimit_headers": "DRAFT_VERSION_03"},
    )
    assert get(edge, user="ann").headers["x-ratelimit-limit"].startswith("5, 5;w=31536000")
    assert statuses(edge, 5, user="ann") == [200, 200, 200, 200, 429]


def test_addends_fixed_by_a_header_and_none(tidegate, envoy):
    rules = """
domain: edge
rules:
  - { name: points, key: [user], limit: 10 per hour }
"""
    def on(user_header, **more):
        return {
            "actions": [
                {"request_headers": {"header_name": user_header, "descriptor_key": "user"}},
            ],
            **more,
        }

    limits = [
        on("x-four", hits_addend={"number": 4}),
        on("x-by", hits_addend={"format": "%REQ(x-cost)%"}),
        on("x-peek", hits_addend={"number": 0}),
    ]
    edge = envoy(
        tidegate(rules, flags=["--rls-details", "off"]),
        limits,
        ratelimit={"enable_x_ratelimit_headers": "DRAFT_VERSION_03"},
    )

    def remaining(**headers):
        answer = get(edge, **headers)
        return answer.status_code, int(answer.headers["x-ratelimit-remaining"])

    assert remaining(four="ann") == (200, 6)
    assert remaining(peek="ann") == (200, 6), "an addend of 0 charges nothing"
    assert remaining(by="ann", cost=5) == (200, 1)
    assert remaining(four="ann") == (429, 1), "four units do not fit and are not charged"
    assert remaining(by="ann", cost=1) == (200, 0)
    assert remaining(peek="ann") == (200, 0), "an addend of 0 passes at the limit"


def llm_edge(envoy, server):
    """Envoy in front of a model: a request asks without hits, and its tokens are charged when the response is done."""
    count = {
        "name": "tokens",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
            "response_rules": [
                {
                    "header": "tokens",
                    "on_header_present": {"metadata_namespace": "llm", "key": "tokens", "type": "NUMBER"},
                }
            ],
        },
    }
    limits = [
        descriptor("user", hits_addend={"number": 0}),
        descriptor("user", hits_addend={"format": "%DYNAMIC_METADATA(llm:tokens)%"}, apply_on_stream_done=True),
    ]
    return envoy(server, limits, filters=[count])


def tokens_left(server):
    return server.check({"user": "ann"}, domain="edge", path="/v1/peek", cost=0).json()["remaining"]


def test_tokens_that_are_known_only_when_the_response_is_done(tidegate, envoy):
    rules = """
domain: edge
rules:
  - { name: tokens, match: { user: { exists: true } }, key: [user], limit: 100 per 100 days }
"""
    server = tidegate(rules)
    edge = llm_edge(envoy, server)
    assert get(edge, user="ann", answer_tokens=60).status_code == 200
    wait_for("60 tokens are charged", lambda: tokens_left(server) == 40)
    assert get(edge, user="ann", answer_tokens=40).status_code == 200
    wait_for("all tokens are used", lambda: tokens_left(server) == 0)


def test_tokens_beyond_the_limit_deny_the_next_requests(tidegate, envoy, upstream):
    rules = """
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1000 } }
"""
    server = tidegate(rules)
    edge = llm_edge(envoy, server)
    for left in [400, 0]:
        assert get(edge, user="ann", answer_tokens=600).status_code == 200
        wait_for("600 tokens are charged", lambda: tokens_left(server) == left)
    assert statuses(edge, 28, user="ann", answer_tokens=600) == [429] * 28
    assert len(upstream.seen) == 2


def test_dynamic_metadata_in_the_access_log(tidegate, envoy):
    rules = """
domain: edge
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 1 per hour, metadata: { team: payments } }
"""
    edge = envoy(tidegate(rules), [descriptor("user")])
    assert statuses(edge, 2, user="ann") == [200, 429]
    passed, denied = wait_for("two lines in the access log", lambda: logged(edge, 2))
    assert passed["metadata"]["decision"] == "allowed"
    assert denied["status"] == 429 and "RL" in denied["flags"]
    assert denied["metadata"]["decision"] == "denied"
    assert denied["metadata"]["rule"] == "per-user"
    assert "ann" not in str(denied["metadata"]), "the metadata does not contain the key"


def logged(edge, count):
    lines = edge.logged()
    return lines if len(lines) >= count else None
