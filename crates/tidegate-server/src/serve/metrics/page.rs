//! All metrics as one page.

use std::sync::atomic::Ordering;

use tidegate::{Clock as _, Timestamp};

use super::exposition::{Exposition, MetricType};
use super::histogram::format_seconds;
use super::kinds::LabeledCounters;
use super::tallies::FATES;
use super::{Metrics, NO_RULE, process};
use crate::serve::{App, Protocol};

impl Metrics {
    /// All metrics of the server that this is of, as Prometheus reads them.
    pub fn page(&self, app: &App) -> String {
        let mut page = Exposition::default();
        self.write_decisions(&mut page);
        self.write_times(&mut page);
        self.write_connections(&mut page);
        write_store(&mut page, app);
        self.write_fleet(&mut page, app);
        write_rules(&mut page, app);
        write_snapshots(&mut page, app);
        write_certificate(&mut page, app);
        page.family("tidegate_build_info", MetricType::Gauge, "The version that is running; always 1.");
        page.sample("tidegate_build_info", &[("version", app.status.version())], 1);
        process::write(&mut page);
        page.into_text()
    }

    fn write_decisions(&self, page: &mut Exposition) {
        let name = "tidegate_decisions_total";
        page.family(
            name,
            MetricType::Counter,
            "Decisions, by the rule that made them. No rule: none had a say. No domain: one without rules.",
        );
        for tally in self.rule_counters.all() {
            // What nobody limits is there from the start; the rest appears with its first decision.
            let is_first = &*tally.domain == NO_RULE.domain && &*tally.rule == NO_RULE.rule;
            for by in Protocol::ALL {
                for fate in FATES {
                    let count = tally.get(by, fate);
                    if count > 0 || (is_first && by != Protocol::Admin && fate == FATES[0]) {
                        let (domain, rule) = (&*tally.domain, &*tally.rule);
                        let labels = [
                            ("protocol", by.as_str()),
                            ("domain", domain),
                            ("rule", rule),
                            ("decision", fate.as_str()),
                        ];
                        page.sample(name, &labels, count);
                    }
                }
            }
        }
        let name = "tidegate_candidate_denied_total";
        page.family(name, MetricType::Counter, "Requests that a candidate would have denied.");
        for tally in self.rule_counters.all() {
            let count = tally.candidate_denied.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(name, &[("domain", &tally.domain), ("rule", &tally.rule)], count);
            }
        }
        let name = "tidegate_requests_rejected_total";
        write_labeled(
            page,
            name,
            "Requests that were not decided, and why.",
            &self.rejected_requests,
            ["protocol", "reason"],
        );
        let name = "tidegate_operations_total";
        let help = "What was done that is no decision: peeks, leases given back, refunds, resets.";
        write_labeled(page, name, help, &self.operations, ["operation", "result"]);
    }

    fn write_times(&self, page: &mut Exposition) {
        let name = "tidegate_decision_seconds";
        let help = "Time of a decision, without the time that a rule held it. Of one decision of 17.";
        page.family(name, MetricType::Histogram, help);
        for by in [Protocol::Http, Protocol::Grpc, Protocol::Resp] {
            self.decision[by as usize].write(page, name, &[("protocol", by.as_str())]);
        }
        let name = "tidegate_matching_seconds";
        let help = "Time to find the rules of a decision, and its keys. Of one decision of 17.";
        page.family(name, MetricType::Histogram, help);
        self.matching.write(page, name, &[]);
        let name = "tidegate_store_seconds";
        page.family(name, MetricType::Histogram, "Time that the store took for a decision. Of one decision of 17.");
        self.store.write(page, name, &[]);
    }

    fn write_connections(&self, page: &mut Exposition) {
        let counts = |by: Protocol| {
            let connections = &self.connections[by as usize];
            // In this order, so that there are never fewer opened than closed.
            let closed = connections.closed.load(Ordering::Relaxed);
            let opened = connections.opened.load(Ordering::Relaxed);
            (opened, opened.saturating_sub(closed))
        };
        let name = "tidegate_connections";
        page.family(name, MetricType::Gauge, "Connections that are open.");
        for by in Protocol::ALL {
            page.sample(name, &[("protocol", by.as_str())], counts(by).1);
        }
        let name = "tidegate_connections_total";
        page.family(name, MetricType::Counter, "Connections that were opened.");
        for by in Protocol::ALL {
            page.sample(name, &[("protocol", by.as_str())], counts(by).0);
        }
        let name = "tidegate_connections_refused_total";
        let help = "Connections that were closed before anything was asked, and why.";
        write_labeled(page, name, help, &self.refused_connections, ["protocol", "reason"]);
    }
}

fn write_labeled(page: &mut Exposition, name: &str, help: &str, kinds: &LabeledCounters, labels: [&str; 2]) {
    page.family(name, MetricType::Counter, help);
    for (words, count) in kinds.all() {
        page.sample(name, &[(labels[0], words[0]), (labels[1], words[1])], count);
    }
}

fn write_store(page: &mut Exposition, app: &App) {
    let (engine, memory) = (&app.engine, app.engine.store().memory());
    let stats = memory.stats();
    let held = "Requests that rules with the action delay hold at this moment.";
    page.single("tidegate_held_requests", MetricType::Gauge, held, engine.waiting_requests());
    let live = memory.live_counters(engine.clock().now());
    let help = "Counters that hold something which still matters; of many, estimated from a sample.";
    page.single("tidegate_live_keys", MetricType::Gauge, help, live);
    page.single("tidegate_store_bytes", MetricType::Gauge, "Memory in use for counters.", stats.bytes_used);
    page.single("tidegate_store_bytes_max", MetricType::Gauge, "Memory that counters may take.", stats.bytes_max);
    let help = "Counters that were given up while they still mattered, because memory was full.";
    page.single("tidegate_evictions_total", MetricType::Counter, help, stats.live_evictions);
}

fn write_rules(page: &mut Exposition, app: &App) {
    let rules = app.status.rules();
    page.single("tidegate_rules", MetricType::Gauge, "Rules in force, of all domains.", rules.rules);
    let name = "tidegate_reloads_total";
    page.family(name, MetricType::Counter, "Attempts to put other rules into force.");
    page.sample(name, &[("result", "replaced")], rules.replacements);
    page.sample(name, &[("result", "refused")], rules.rejections);
    let name = "tidegate_rules_last_reload_success";
    let help = "1 if the files as they are now are in force; 0 if they cannot be used, and those before are.";
    page.single(name, MetricType::Gauge, help, u8::from(rules.failure.is_none()));
    let name = "tidegate_rules_last_reload_success_timestamp_seconds";
    page.single(name, MetricType::Gauge, "When the rules in force were put into force.", format_timestamp(rules.loaded_at));
}

fn write_snapshots(page: &mut Exposition, app: &App) {
    let Some(snapshots) = app.status.snapshots() else { return };
    let name = "tidegate_snapshots_total";
    page.family(name, MetricType::Counter, "Attempts to write a snapshot.");
    page.sample(name, &[("result", "written")], snapshots.write_count);
    page.sample(name, &[("result", "failed")], snapshots.failure_count);
    let name = "tidegate_snapshot_last_success";
    let help = "1 if the last attempt to write a snapshot succeeded, or there was none yet.";
    page.single(name, MetricType::Gauge, help, u8::from(snapshots.failure.is_none()));
    if let Some(last) = &snapshots.last {
        let name = "tidegate_snapshot_last_success_timestamp_seconds";
        page.single(name, MetricType::Gauge, "When the last snapshot was written.", format_timestamp(last.written_at));
        page.single("tidegate_snapshot_bytes", MetricType::Gauge, "Size of the last snapshot.", last.bytes);
        page.single(
            "tidegate_snapshot_counters",
            MetricType::Gauge,
            "Counters in the last snapshot.",
            last.entries,
        );
    }
}

fn write_certificate(page: &mut Exposition, app: &App) {
    let Some(certificate) = app.status.certificate() else { return };
    let name = "tidegate_certificate_reloads_total";
    page.family(name, MetricType::Counter, "Attempts to put another certificate into use.");
    page.sample(name, &[("result", "replaced")], certificate.replacements);
    page.sample(name, &[("result", "refused")], certificate.rejections);
    let name = "tidegate_certificate_last_reload_success_timestamp_seconds";
    let help = "When the certificate in use was put into use.";
    page.single(name, MetricType::Gauge, help, format_timestamp(certificate.loaded_at));
}

fn format_timestamp(at: Timestamp) -> String {
    format_seconds(at.as_nanos())
}
