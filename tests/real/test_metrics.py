"""Metrics after traffic over every protocol, checked by promtool."""

import json
import re
import textwrap

import requests
from harness.waiting import DEADLINE_S, wait_for

RULES = """
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 2 per hour }
  - { name: dry, match: { dry: { exists: true } }, key: [dry], limit: 1 per hour, action: shadow }
  - { name: ban, match: { ban: { exists: true } }, key: [ban], limit: 1 per hour, action: shadow_ban }
"""


def test_metrics_after_traffic_over_every_protocol(tidegate, clients, run, parts):
    server = tidegate(RULES)
    for client in clients(server):
        for _ in range(3):
            client.check("api", {"user": f"secret-{client.protocol}"})
            client.check("api", {"dry": client.protocol})
            client.check("api", {"ban": client.protocol})
    response = requests.get(server.admin + "/metrics", timeout=DEADLINE_S)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")

    checked = run(parts / "bin/promtool", "check", "metrics", input=response.text)
    assert (checked.stdout, checked.stderr) == ("", ""), "promtool reports no problems"

    for protocol in ("http", "resp", "grpc"):
        for decision, count in (("allowed", 4), ("denied", 1), ("shadow_denied", 2), ("shadow_banned", 2)):
            counted = server.metric("tidegate_decisions_total", protocol=protocol, decision=decision)
            assert counted == count, (protocol, decision)
    assert "secret-" not in response.text, "labels name rules, never keys"
    for name in ("tidegate_live_keys", "process_resident_memory_bytes"):
        assert server.metric(name) > 0, name
    # The unit is a hundredth of a second, which takes a while to use.
    wait_for("CPU time is counted", lambda: server.metric("process_cpu_seconds_total") > 0)


def test_they_do_not_grow_with_the_keys(tidegate, clients):
    server = tidegate(RULES)

    def samples():
        text = requests.get(server.admin + "/metrics", timeout=DEADLINE_S).text
        return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}

    over = clients(server)
    for client in over:
        for number in range(3):
            client.check("api", {"user": f"first-{client.protocol}"})
        client.check("no-such-domain", {"user": "x"})
    before = samples()
    for client in over:
        for number in range(100):
            client.check("api", {"user": f"user-{number}"})
            client.check(f"no-such-domain-{number}", {"user": "x"})
    assert samples() == before


def test_alerts_in_the_documentation_can_be_used(root, run, parts, tmp_path):
    page = (root / "docs/metrics.md").read_text()
    alerts = textwrap.dedent(re.search(r"^    groups:\n(?:(?:    .*)?\n)*", page, re.M)[0])
    path = tmp_path / "alerts.yaml"
    path.write_text(alerts)
    checked = run(parts / "bin/promtool", "check", "rules", path)
    assert "SUCCESS" in checked.stdout and "0 rules found" not in checked.stdout


DRY_RUN_RULES = """
domain: api
rules:
  - { name: dry, match: { user: { exists: true } }, key: [user], limit: 5 per day, action: shadow }
  - { name: real, match: { user: { exists: true } }, key: [user], limit: 1000 per day, candidate: 10 per day }
  - { name: blocked, match: { ip: 192.0.2.1 }, limit: 0 per second }
  - { name: login, match: { login: { exists: true } }, key: [login], limit: 1 per day }
"""


def test_queries_and_alerts_of_the_documentation_with_real_counters(root, tidegate, run, parts, tmp_path):
    """Traffic and scrapes in turn, which promtool takes as one scrape a minute."""
    server = tidegate(DRY_RUN_RULES, flags=["--unknown-domain", "deny"])
    series, rounds, per_round = {}, 31, 20
    for number in range(rounds):
        for _ in range(per_round):
            server.check({"user": f"user-{number}"}, domain="api")
        for attributes in ({"ip": "192.0.2.1"}, {"login": "bob"}, {"login": "bob"}):
            server.check(attributes, domain="api")
        server.check({"user": "ann"}, domain="no-such-domain")
        page = requests.get(server.admin + "/metrics", timeout=DEADLINE_S).text
        for line in page.splitlines():
            if line.startswith("tidegate_") and "_bucket" not in line:
                name, _, value = line.rpartition(" ")
                series.setdefault(name, ["_"] * number).append(value)

    page = (root / "docs/metrics.md").read_text()
    alerts = textwrap.dedent(re.search(r"^    groups:\n(?:(?:    .*)?\n)*", page, re.M)[0])
    (tmp_path / "alerts.yaml").write_text(alerts)
    dry_run, candidate = re.findall(r"^The share of requests that .*\n\n((?:    .*\n)+)", page, re.M)

    def share(rule, denied_per_round):
        return {"labels": f'{{domain="api", rule="{rule}"}}', "value": denied_per_round / per_round}

    tests = {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": " ".join(all)} for name, all in series.items()],
                "promql_expr_test": [
                    {"expr": dry_run, "eval_time": "30m", "exp_samples": [share("dry", 15)]},
                    {"expr": candidate, "eval_time": "30m", "exp_samples": [share("real", 10)]},
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "30m",
                        "alertname": "TidegateDeniesMost",
                        "exp_alerts": [
                            {
                                "exp_labels": {"domain": "api", "rule": "login"},
                                "exp_annotations": {"summary": "login denies more than half of its requests."},
                            }
                        ],
                    }
                ],
            }
        ],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps(tests))
    checked = run(parts / "bin/promtool", "test", "rules", path)
    assert "SUCCESS" in checked.stdout, checked.stdout + checked.stderr


def test_metrics_in_the_documentation_are_those_that_there_are(root, tidegate, redis_server, tmp_path):
    """All metrics are documented, and all documented metrics exist, except those that need TLS."""
    server = tidegate(RULES, flags=["--data-dir", tmp_path / "data", "--snapshot-every", "1s"])
    server.check({"user": "ann"}, domain="api")
    wait_for("a snapshot", lambda: server.metric("tidegate_snapshots_total", result="written"))
    # Metrics of a shared store, and of a store of leases, exist only with one. Nothing listens on this port.
    sharing = tidegate(RULES, flags=["--store", redis_server().url, "--lease-store", "etcd://127.0.0.1:1"])
    pages = [requests.get(each.admin + "/metrics", timeout=DEADLINE_S).text for each in (server, sharing)]
    there = set(re.findall(r"^# TYPE (\S+)", "".join(pages), re.M))
    table = (root / "docs/metrics.md").read_text().split("## Questions")[0]
    documented = set(re.findall(r"`((?:tidegate|process)_[a-z_]+[a-z])`", table))
    assert there <= documented, there - documented
    # No address uses TLS here.
    certificates = {name for name in documented if "certificate" in name}
    assert documented - there <= certificates, documented - there - certificates
