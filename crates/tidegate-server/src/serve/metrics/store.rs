//! What a store that a fleet shares says of itself, as metrics.

use std::sync::atomic::Ordering;

use tidegate::redis::{BreakerState, StoreStats};
use tidegate::rules::OnStoreFailure;

use super::Metrics;
use super::exposition::{Exposition, MetricType};
use crate::serve::App;

impl Metrics {
    /// Nothing if counters are in memory.
    pub(super) fn write_fleet(&self, page: &mut Exposition, app: &App) {
        let Some(fleet) = &app.fleet else { return };
        let stats = fleet.store.stats();
        write_plans(page, &stats);
        write_servers(page, &stats);
        let name = "tidegate_store_degraded_decisions_total";
        let help = "Decisions without the shared store, by what was done instead.";
        page.family(name, MetricType::Counter, help);
        for policy in OnStoreFailure::ALL {
            let count = self.degraded_decisions[policy as usize].load(Ordering::Relaxed);
            page.sample(name, &[("policy", policy.as_str())], count);
        }
        let name = "tidegate_store_degraded";
        let help = "1 while decisions are made without the shared store.";
        page.single(name, MetricType::Gauge, help, u8::from(fleet.degraded_since().is_some()));
    }
}

fn write_plans(page: &mut Exposition, stats: &StoreStats) {
    let counters = [
        (
            "orders",
            "Plans that the shared store was asked for, parts of plans that were split each.",
            stats.plans,
        ),
        ("calls", "Calls of the script that they were put into.", stats.calls),
        ("coalesced", "Plans that went along with the same plan in one call.", stats.coalesced),
        (
            "deny_cache_hits",
            "Denials from memory, because the shared store would deny.",
            stats.deny_cache_hits,
        ),
        ("splits", "Plans whose keys were in several slots or servers.", stats.splits),
        (
            "split_refunds",
            "Parts of split plans, and late leases, that were given back.",
            stats.split_refunds,
        ),
        (
            "split_refunds_lost",
            "Parts of split plans that could not be given back.",
            stats.split_refunds_lost,
        ),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_store_{what}_total"), MetricType::Counter, help, count);
    }
    let name = "tidegate_store_failures_total";
    page.family(name, MetricType::Counter, "Plans that the shared store did not answer, and why.");
    for (reason, count) in stats.failures.by_reason() {
        page.sample(name, &[("reason", reason)], count);
    }
    let help = "Processes that share the store, this one included.";
    page.single("tidegate_store_live_nodes", MetricType::Gauge, help, stats.live_nodes);
}

fn write_servers(page: &mut Exposition, stats: &StoreStats) {
    let servers = &stats.servers;
    let name = "tidegate_store_breaker_open";
    page.family(name, MetricType::Gauge, "1 while a server of the store is not asked because it did not answer.");
    for server in &servers.servers {
        let is_open = u8::from(server.breaker == BreakerState::Open);
        page.sample(name, &[("server", &server.address)], is_open);
    }
    let counters = [
        ("rounds", "Pipelines of commands that were sent to servers of the store.", servers.total.pipelines),
        (
            "redirects",
            "Commands that were sent on because a cluster is being changed.",
            servers.total.redirects,
        ),
        (
            "reconnects",
            "Connections to servers of the store that were made after the first.",
            servers.total.reconnects,
        ),
        (
            "ring_moved",
            "Keys that were asked for at the next member of a ring, its own being away.",
            servers.ring_moved,
        ),
        ("replicas_short", "Pipelines that too few replicas had received in time.", servers.replicas_short),
    ];
    for (what, help, count) in counters {
        page.single(&format!("tidegate_store_{what}_total"), MetricType::Counter, help, count);
    }
}
