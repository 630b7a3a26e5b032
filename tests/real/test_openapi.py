"""Schemathesis compares the served OpenAPI document with the behaviour of the server."""

import pytest
import requests
from harness.waiting import DEADLINE_S

RULES = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 3 per hour }
  - { name: in-flight, match: { job: { exists: true } }, key: [job], limit: { limit: 2, algorithm: concurrency, ttl: 1m } }
"""

# No schema can say which texts are rules without errors.
SETTINGS = """
[[operations]]
include-path = "/v1/rules/push"
[operations.checks]
positive_data_acceptance.expected-statuses = [200, 409, 422]
"""

# Any method is allowed at /v1/authorize, and no schema can say which paths have a single meaning.
AUTHORIZE = "/v1/authorize"
AUTHORIZE_CHECKS = ["--exclude-checks", "unsupported_method,positive_data_acceptance"]


@pytest.mark.parametrize("listener", ["http", "admin"])
def test_the_document_is_true(tidegate, run, parts, tmp_path, listener):
    # By default the server refuses negative hits, which the document allows.
    server = tidegate(RULES, flags=["--negative-hits", "refund", "--forward-auth-domain", "api"])
    url = server.url if listener == "http" else server.admin
    document = requests.get(url + "/openapi.json", timeout=DEADLINE_S)
    assert document.status_code == 200
    assert document.headers["content-type"].startswith("application/json")
    assert document.json()["openapi"].startswith("3.")

    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    selections = [["--exclude-path", AUTHORIZE]]
    if listener == "http":
        selections.append(["--include-path", AUTHORIZE, *AUTHORIZE_CHECKS])
    for selection in selections:
        ended = run(
            *(parts / "venv/bin/schemathesis", "run", url + "/openapi.json", *selection),
            *("--url", url, "--checks", "all", "--max-examples", "30", "--generation-deterministic"),
            *("--workers", "1", "--no-color", "--suppress-health-check", "all", "--request-timeout", "120"),
            code=None,
            cwd=tmp_path,
        )
        assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2_000:]
    server.process.must_run()
    assert server.is_ready()
