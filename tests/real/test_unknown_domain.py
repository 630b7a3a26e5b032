"""A domain without rules, over all protocols."""

import pytest
from harness.waiting import wait_for

RULES = "{ domain: checkout, rules: [ { name: per-user, key: [user], limit: 100 per hour } ] }"


@pytest.mark.parametrize(("flags", "decision"), [([], "allowed"), (["--unknown-domain", "deny"], "denied")])
def test_an_unknown_domain(tidegate, clients, flags, decision):
    server = tidegate(RULES, flags=flags)
    for client in clients(server):
        assert client.check("chekout", {"user": "ann"}) == decision, client.protocol
        assert client.check("checkout", {"user": "ann"}) == "allowed", client.protocol
        assert server.metric("tidegate_unknown_domain_total", protocol=client.protocol) == 1
    wait_for("a warning", lambda: "did you mean `checkout`?" in server.process.stderr())
    assert server.process.stderr().count("`chekout`") == 1, "one line for all protocols"
