"""A master dies under load and a replica takes over: the service continues, and the loss is measured.

Redis replicates after it has answered. Writes that a master had not replicated when it died are lost: for each failover, at
most the limit of each key passes once more.
"""

import time

import pytest
from harness.fleet import Load, rule, rules
from harness.redis_cluster import nodes_seen_by
from harness.tally import Tally
from harness.waiting import wait_for

LIMIT = 60
USERS = [f"user-{number}" for number in range(24)]

RULES = rules(
    rule("strict", f"{{ limit: {LIMIT}, per: 100d }}", on_store_failure="deny"),
    # Never denies, so it shows whether the store answers.
    rule("served", "{ limit: 1000000, per: 1h }"),
)


def kill_under_load(running, kill, is_over, what):
    """Kills a server under load, waits for the recovery, and sends more requests."""
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask, pause_s=0.02) as load:
        load.more(200)
        began = time.monotonic()
        kill()
        wait_for("a replica has taken over", is_over)
        taken_over_s = time.monotonic() - began
        running.wait_until_shared(*({"by": "served", "user": user} for user in USERS))
        print(f"\n{what}: taken over after {taken_over_s:.1f} s, all shared again after {time.monotonic() - began:.1f} s")
        answers = load.more(200)
    assert all(answer.shared for answer in answers[-32:]), "the recovery lasts"
    tally.use_up(running)
    tally.assert_is_bounded(what, losses=1)
    running.must_run()


def test_a_master_of_a_cluster_is_killed(fleet, redis_cluster):
    cluster = redis_cluster(node_timeout_ms=1_000)
    running = fleet(RULES, cluster.url, timeout="200ms")
    [victim, *_] = cluster.masters()
    slot = first_slot_of(victim)
    kill_under_load(running, victim.kill, lambda: cluster.server_of_slot(slot) is not victim, "cluster failover")


def first_slot_of(node):
    return next(seen["slots"][0][0] for seen in nodes_seen_by(node) if "myself" in seen["flags"])


def test_the_master_of_sentinels_is_killed(fleet, sentinel_set):
    sentinels = sentinel_set(password="open-sesame")
    running = fleet(RULES, sentinels.url, timeout="200ms")
    victim = sentinels.master()
    kill_under_load(running, victim.kill, lambda: sentinels.master() not in (None, victim), "sentinel failover")


@pytest.mark.parametrize("how", ["forced", "agreed"])
def test_a_replica_is_told_to_take_over(fleet, redis_cluster, how):
    """As operators do for an upgrade. If master and replica agree, nothing is lost."""
    cluster = redis_cluster()
    running = fleet(RULES, cluster.url)
    [replica, *_] = cluster.replicas()
    words = ["CLUSTER", "FAILOVER"] + (["FORCE"] if how == "forced" else [])
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask, pause_s=0.02) as load:
        load.more(200)
        replica.ask(*words)
        wait_for("the replica is master", lambda: replica.info("replication")["role"] == "master")
        running.wait_until_shared(*({"by": "served", "user": user} for user in USERS))
        load.more(200)
    tally.use_up(running)
    tally.assert_is_bounded(f"{how} takeover", losses=0 if how == "agreed" else 1)


def test_slots_are_moved_under_load(fleet, redis_cluster):
    """Keys of a half-moved slot are at either server (ASK), later at the new one (MOVED). Nothing is lost."""
    cluster = redis_cluster()
    running = fleet(RULES, cluster.url)
    tally = Tally(LIMIT, USERS)
    with Load(running, tally.ask, pause_s=0.02) as load:
        load.more(200)
        masters = cluster.masters()
        moved = sorted({masters[0].ask("CLUSTER", "KEYSLOT", key) for key in cluster.keys("tg:1{*")})[:6]
        for slot in moved:
            source = cluster.server_of_slot(slot)
            target = next(master for master in masters if master is not source)
            cluster.move_slot(slot, target, pause=lambda: load.more(20))
        load.more(200)
    assert running.metric("tidegate_store_redirects_total") > 0
    tally.use_up(running)
    tally.assert_is_bounded(f"{len(moved)} slots moved")
    running.must_run()
