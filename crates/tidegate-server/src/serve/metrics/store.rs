//! Metrics of the shared store of a fleet, and of the store of leases.

use std::sync::atomic::Ordering;

use tidegate::etcd::EtcdStats;
use tidegate::redis::{BreakerState, StoreStats, WriteState};
use tidegate::rules::OnStoreFailure;
use tidegate::store::{CounterId, ModeStats};

use super::Metrics;
use super::exposition::{Exposition, MetricType};
use crate::serve::App;

impl Metrics {
    /// Writes nothing if counters and leases are in memory.
    pub(super) fn write_fleet(&self, page: &mut Exposition, app: &App) {
        if let Some(leases) = &app.lease_store {
            write_leases(page, &leases.store.stats());
        }
        if let Some(fleet) = &app.fleet {
            let stats = fleet.store.stats();
            write_plans(page, &stats);
            write_servers(page, &stats);
            write_modes(page, &fleet.modes.stats());
            write_usage(page, app, &fleet.modes.usage_ratios());
            let name = "tidegate_store_degraded";
            let help = "1 while decisions are made without the shared store, else 0.";
            page.single(name, MetricType::Gauge, help, u8::from(fleet.degraded_since().is_some()));
        }
        if app.fleet.is_some() || app.lease_store.is_some() {
            self.write_degraded(page);
        }
    }

    fn write_degraded(&self, page: &mut Exposition) {
        let name = "tidegate_store_degraded_decisions_total";
        let help = "Decisions without the shared store, by the policy that replaced it.";
        page.family(name, MetricType::Counter, help);
        for policy in OnStoreFailure::ALL {
            let count = self.degraded_decisions[policy as usize].load(Ordering::Relaxed);
            page.sample(name, &[("policy", policy.as_str())], count);
        }
        let name = "tidegate_store_unreadable_decisions_total";
        let help = "Decisions without the shared store because a key in it is not a counter.";
        let count = self.unreadable_decisions.load(Ordering::Relaxed);
        page.single(name, MetricType::Counter, help, count);
    }
}

fn write_leases(page: &mut Exposition, stats: &EtcdStats) {
    let counters = [
        ("operations", "Operations on leases that etcd was asked for.", stats.operations),
        ("calls", "Requests sent to members of etcd.", stats.calls),
        ("calls_failed", "Requests that a member of etcd did not answer, or could not.", stats.calls_failed),
        (
            "conflicts",
            "Acquisitions that were decided again, because another node took a lease of the key in between.",
            stats.conflicts,
        ),
        (
            "abandoned",
            "Leases given back because their caller had given up, or their effect was unknown.",
            stats.leases_abandoned,
        ),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_lease_store_{what}_total"), MetricType::Counter, help, count);
    }
    let name = "tidegate_lease_store_failures_total";
    page.family(name, MetricType::Counter, "Operations on leases that etcd did not answer, by reason.");
    for (reason, count) in stats.failures {
        page.sample(name, &[("reason", reason)], count);
    }
}

fn write_plans(page: &mut Exposition, stats: &StoreStats) {
    let counters = [
        ("plans", "Plans sent to the shared store. Each part of a split plan counts.", stats.plans),
        ("calls", "Script calls in which plans were sent.", stats.calls),
        ("coalesced", "Plans that were merged with an equal plan in the same call.", stats.coalesced),
        (
            "deny_cache_hits",
            "Denials from the deny cache, without asking the shared store.",
            stats.deny_cache_hits,
        ),
        ("splits", "Plans that were split because their keys are in several slots or servers.", stats.splits),
        ("split_refunds", "Parts of split plans, and late leases, that were refunded.", stats.split_refunds),
        ("split_refunds_lost", "Parts of split plans that could not be refunded.", stats.split_refunds_lost),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_store_{what}_total"), MetricType::Counter, help, count);
    }
    let name = "tidegate_store_failures_total";
    page.family(name, MetricType::Counter, "Plans that the shared store did not answer, by reason.");
    for (reason, count) in stats.failures.by_reason() {
        page.sample(name, &[("reason", reason)], count);
    }
    let help = "Nodes that share the store, including this one.";
    page.single("tidegate_store_live_nodes", MetricType::Gauge, help, stats.live_nodes);
}

fn write_modes(page: &mut Exposition, stats: &ModeStats) {
    let counters = [
        ("leased_units", "Units that were debited in the shared store in advance.", stats.units_leased),
        ("leased_units_returned", "Leased units that were given back unused.", stats.units_returned),
        (
            "leased_units_stranded",
            "Leased units that could not be given back. They come back with time.",
            stats.units_stranded,
        ),
        ("lease_refills", "Debits of quota leases.", stats.refills),
        ("leased_decisions", "Charges that were admitted from a quota lease.", stats.leased_in_memory),
        ("pushes", "Synchronisations of a key with its shared count.", stats.pushes),
        ("push_failures", "Synchronisations that the shared store did not answer.", stats.push_failures),
        ("pushed_units", "Units that were added to shared counts.", stats.units_pushed),
        (
            "eventual_decisions",
            "Charges that were decided from a copy of the shared count.",
            stats.eventual_in_memory,
        ),
        (
            "strict_for_room",
            "Charges with the mode leased or eventual that were asked strictly, because too many keys are in use.",
            stats.strict_for_room,
        ),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_mode_{what}_total"), MetricType::Counter, help, count);
    }
    let gauges = [
        ("leased_units_held", "Units that are leased and not used.", stats.units_held),
        (
            "pending_units",
            "Units that were used and not pushed to the shared count yet.",
            stats.units_pending,
        ),
        ("debt_units", "Units beyond their limits, in the copies of shared counts.", stats.units_debt),
    ];
    for (what, help, count) in gauges {
        page.single(&format!("tidegate_mode_{what}"), MetricType::Gauge, help, count);
    }
}

/// The most used key of each limit with the mode leased or eventual.
fn write_usage(page: &mut Exposition, app: &App, ratios: &[(CounterId, f64)]) {
    let name = "tidegate_mode_usage_ratio";
    let help = "Units of all nodes divided by the limit, for the key that has used most of it in the present window or the one \
                before, as far as this node knows. \
                More than 1 is over the limit.";
    page.family(name, MetricType::Gauge, help);
    if ratios.is_empty() {
        return;
    }
    let rules = app.engine.rules();
    for domain in rules.domains() {
        for (rule, limit) in domain.limits() {
            let Some((_, ratio)) = ratios.iter().find(|(id, _)| *id == limit.main_counter().id()) else {
                continue;
            };
            let labels =
                [("domain", domain.name()), ("rule", &*rule.name), ("limit", &limit.id().to_string())];
            page.sample(name, &labels, format!("{ratio:.4}"));
        }
    }
}

fn write_servers(page: &mut Exposition, stats: &StoreStats) {
    let servers = &stats.servers;
    let name = "tidegate_store_breaker_open";
    page.family(
        name,
        MetricType::Gauge,
        "1 while a Redis server is not asked because it did not answer, else 0.",
    );
    for server in &servers.servers {
        let is_open = u8::from(server.breaker == BreakerState::Open);
        page.sample(name, &[("server", &server.address)], is_open);
    }
    let name = "tidegate_store_writes_refused";
    page.family(name, MetricType::Gauge, "1 while a Redis server refuses writes and can only deny, else 0.");
    for server in &servers.servers {
        let is_refused = u8::from(server.writes == WriteState::Refused);
        page.sample(name, &[("server", &server.address)], is_refused);
    }
    let counters = [
        ("pipelines", "Pipelines of commands sent to Redis servers.", servers.total.pipelines),
        ("redirects", "Commands that a cluster redirected to another server.", servers.total.redirects),
        ("reconnects", "Connections to Redis servers after the first one to each.", servers.total.reconnects),
        (
            "ring_moved",
            "Keys sent to the next server of a ring because their own is away.",
            servers.ring_moved,
        ),
        ("replicas_short", "Pipelines that too few replicas acknowledged in time.", servers.replicas_short),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_store_{what}_total"), MetricType::Counter, help, count);
    }
}
