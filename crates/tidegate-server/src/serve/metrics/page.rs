//! Writes all metrics as one page.

use std::sync::atomic::Ordering;

use tidegate::identity::TokenProblem;
use tidegate::rules::{Action, Rule, RuleLimit, RuleLimits, UnknownDomain};
use tidegate::{Clock as _, Timestamp};
use tidegate_core::rules::UNKNOWN_DOMAIN_RULE;

use super::descriptor_counters::HitKind;
use super::exposition::{Exposition, MetricType};
use super::histogram::format_seconds;
use super::labeled_counters::LabeledCounters;
use super::rule_counters::ANSWER_KINDS;
use super::{Metrics, NO_RULE, RULES_COUNTED_MAX, process};
use crate::serve::status::limiting_rules;
use crate::serve::{App, Protocol};

impl Metrics {
    /// All metrics of this server in Prometheus' text format.
    pub fn page(&self, app: &App) -> String {
        let mut page = Exposition::default();
        self.write_decisions(&mut page);
        self.write_descriptors(&mut page);
        self.write_times(&mut page);
        self.write_connections(&mut page);
        write_connections_memory(&mut page, app);
        write_store(&mut page, app);
        write_overrides(&mut page, app);
        self.write_fleet(&mut page, app);
        write_rules(&mut page, app);
        write_snapshots(&mut page, app);
        write_certificate(&mut page, app);
        page.family(
            "tidegate_build_info",
            MetricType::Gauge,
            "The running version, as a label. The value is always 1.",
        );
        page.sample("tidegate_build_info", &[("version", app.status.version())], 1);
        process::write(&mut page);
        page.into_text()
    }

    fn write_decisions(&self, page: &mut Exposition) {
        let name = "tidegate_decisions_total";
        page.family(
            name,
            MetricType::Counter,
            "Decisions, by deciding rule. Empty rule: no rule applies. Empty domain: a domain without rules.",
        );
        for counters in self.rule_counters.all() {
            // The series without a rule exists from the start. Others appear with their first decision.
            let is_first = &*counters.domain == NO_RULE.domain && &*counters.rule == NO_RULE.rule;
            for protocol in Protocol::ALL {
                for kind in ANSWER_KINDS {
                    let count = counters.get(protocol, kind);
                    if count > 0 || (is_first && protocol != Protocol::Admin && kind == ANSWER_KINDS[0]) {
                        let (domain, rule) = (&*counters.domain, &*counters.rule);
                        let labels = [
                            ("protocol", protocol.as_str()),
                            ("domain", domain),
                            ("rule", rule),
                            ("decision", kind.as_str()),
                        ];
                        page.sample(name, &labels, count);
                    }
                }
            }
        }
        let name = "tidegate_rule_evaluations_total";
        let help = "Requests that a rule applied to, by what this rule alone decides.";
        page.family(name, MetricType::Counter, help);
        for counters in self.rule_counters.all().filter(|counters| !counters.rule.is_empty()) {
            for kind in ANSWER_KINDS {
                let count = counters.evaluations(kind);
                if count > 0 {
                    let labels = [
                        ("domain", &*counters.domain),
                        ("rule", &*counters.rule),
                        ("decision", kind.as_str()),
                    ];
                    page.sample(name, &labels, count);
                }
            }
        }
        let name = "tidegate_candidate_evaluations_total";
        page.family(name, MetricType::Counter, "Requests that the candidate of a rule was tried on.");
        for counters in self.rule_counters.all() {
            let count = counters.candidate_evaluated.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(name, &[("domain", &counters.domain), ("rule", &counters.rule)], count);
            }
        }
        let name = "tidegate_candidate_denied_total";
        page.family(name, MetricType::Counter, "Requests that the candidate of a rule would have denied.");
        for counters in self.rule_counters.all() {
            let count = counters.candidate_denied.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(name, &[("domain", &counters.domain), ("rule", &counters.rule)], count);
            }
        }
        let name = "tidegate_unknown_domain_total";
        page.family(name, MetricType::Counter, "Decisions on requests whose domain has no rules.");
        for protocol in [Protocol::Http, Protocol::Grpc, Protocol::Resp] {
            let count = self.unknown_domain[protocol as usize].load(Ordering::Relaxed);
            page.sample(name, &[("protocol", protocol.as_str())], count);
        }
        let name = "tidegate_token_problems_total";
        page.family(name, MetricType::Counter, "Requests whose token was not accepted, by reason.");
        for (problem, count) in TokenProblem::ALL.iter().zip(&self.token_problems) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                page.sample(name, &[("problem", problem.as_str())], count);
            }
        }
        let name = "tidegate_token_key_failures_total";
        page.family(
            name,
            MetricType::Counter,
            "Failed attempts to get the keys of tokens. Old keys are kept.",
        );
        page.sample(name, &[], self.token_key_failures.load(Ordering::Relaxed));
        let name = "tidegate_requests_rejected_total";
        write_labeled(
            page,
            name,
            "Requests that were not decided, by reason.",
            &self.rejected_requests,
            ["protocol", "reason"],
        );
        let name = "tidegate_operations_total";
        let help = "Operations other than decisions: peek, acquire, renew, release, refund, reset, explain.";
        write_labeled(page, name, help, &self.operations, ["operation", "result"]);
    }

    /// A descriptor appears with its first hit.
    fn write_descriptors(&self, page: &mut Exposition) {
        for kind in HitKind::ALL {
            page.family(kind.metric(), MetricType::Counter, kind.help());
            for counters in self.descriptor_counters.all().filter(|counters| counters.get(HitKind::Total) > 0)
            {
                let labels = [("domain", &*counters.domain), ("descriptor", &*counters.descriptor)];
                page.sample(kind.metric(), &labels, counters.get(kind));
            }
        }
    }

    fn write_times(&self, page: &mut Exposition) {
        let name = "tidegate_decision_seconds";
        let help = "Time of a decision, without waiting by the action delay. Sampled: one decision in 17.";
        page.family(name, MetricType::Histogram, help);
        for protocol in [Protocol::Http, Protocol::Grpc, Protocol::Resp] {
            self.decision[protocol as usize].write(page, name, &[("protocol", protocol.as_str())]);
        }
        let name = "tidegate_matching_seconds";
        let help = "Time to match rules and build keys for a decision. Sampled: one decision in 17.";
        page.family(name, MetricType::Histogram, help);
        self.matching.write(page, name, &[]);
        let name = "tidegate_store_seconds";
        page.family(
            name,
            MetricType::Histogram,
            "Time of the store for a decision. Sampled: one decision in 17.",
        );
        self.store.write(page, name, &[]);
    }

    fn write_connections(&self, page: &mut Exposition) {
        let counts = |protocol: Protocol| {
            let connections = &self.connections[protocol as usize];
            // Load in this order, so that opened is never less than closed.
            let closed = connections.closed.load(Ordering::Relaxed);
            let opened = connections.opened.load(Ordering::Relaxed);
            (opened, opened.saturating_sub(closed))
        };
        let name = "tidegate_connections";
        page.family(name, MetricType::Gauge, "Open connections.");
        for protocol in Protocol::ALL {
            page.sample(name, &[("protocol", protocol.as_str())], counts(protocol).1);
        }
        let name = "tidegate_connections_total";
        page.family(name, MetricType::Counter, "Connections opened.");
        for protocol in Protocol::ALL {
            page.sample(name, &[("protocol", protocol.as_str())], counts(protocol).0);
        }
        let name = "tidegate_connections_refused_total";
        let help = "Connections refused or closed before their first request, by reason.";
        write_labeled(page, name, help, &self.refused_connections, ["protocol", "reason"]);
        let name = "tidegate_failed_logins_total";
        page.family(name, MetricType::Counter, "Missing or wrong tokens and wrong passwords.");
        for protocol in [Protocol::Http, Protocol::Resp, Protocol::Admin] {
            let count = self.failed_logins[protocol as usize].load(Ordering::Relaxed);
            page.sample(name, &[("protocol", protocol.as_str())], count);
        }
    }
}

fn write_labeled(
    page: &mut Exposition,
    name: &str,
    help: &str,
    counters: &LabeledCounters,
    labels: [&str; 2],
) {
    page.family(name, MetricType::Counter, help);
    for (values, count) in counters.all() {
        page.sample(name, &[(labels[0], values[0]), (labels[1], values[1])], count);
    }
}

fn write_connections_memory(page: &mut Exposition, app: &App) {
    let memory = &app.connections_memory;
    let help = "Memory reserved for connections and what they hold.";
    page.single("tidegate_connections_bytes", MetricType::Gauge, help, memory.used());
    let help = "Maximum memory for connections and what they hold.";
    page.single("tidegate_connections_bytes_max", MetricType::Gauge, help, memory.max());
    let help = "Maximum number of requests that wait because of a rule with the action delay.";
    page.single("tidegate_waiting_requests_max", MetricType::Gauge, help, memory.waiters_max());
}

fn write_store(page: &mut Exposition, app: &App) {
    let (engine, memory) = (&app.engine, app.engine.store().memory());
    let stats = memory.stats();
    let help = "Requests that wait because of a rule with the action delay.";
    page.single("tidegate_waiting_requests", MetricType::Gauge, help, engine.waiting_requests());
    let live = memory.live_counters(engine.clock().now());
    let help = "Counters that are not idle. Estimated from a sample if there are many.";
    page.single("tidegate_live_keys", MetricType::Gauge, help, live);
    page.single("tidegate_store_bytes", MetricType::Gauge, "Memory used by counters.", stats.bytes_used);
    page.single(
        "tidegate_store_bytes_max",
        MetricType::Gauge,
        "Maximum memory for counters.",
        stats.bytes_max,
    );
    let help = "Counters evicted before they were idle, because memory was full.";
    page.single("tidegate_evictions_total", MetricType::Counter, help, stats.live_evictions);
    let help = "Requests for a lease that were refused, because the memory for leases was full.";
    page.single("tidegate_lease_refusals_total", MetricType::Counter, help, stats.lease_refusals);
}

fn write_overrides(page: &mut Exposition, app: &App) {
    let Some(stats) = app.engine.overrides().map(|overrides| overrides.stats()) else { return };
    let help = "Keys in the cache of overrides, with and without overrides.";
    page.single("tidegate_override_cache_entries", MetricType::Gauge, help, stats.entries);
    let help = "Memory used by the cache of overrides.";
    page.single("tidegate_override_cache_bytes", MetricType::Gauge, help, stats.bytes);
    let help = "Look-ups of keys in the cache of overrides that found what is known about the key.";
    page.single("tidegate_override_cache_hits_total", MetricType::Counter, help, stats.hits);
    let help = "Look-ups of keys whose overrides were not in the cache.";
    page.single("tidegate_override_cache_misses_total", MetricType::Counter, help, stats.misses);
    let help = "Reads of a key's overrides from the config store that a request started.";
    page.single("tidegate_override_loads_total", MetricType::Counter, help, stats.loads);
    let help = "Reads of a key's overrides that failed. Such requests are decided by the rule.";
    page.single("tidegate_override_load_errors_total", MetricType::Counter, help, stats.load_errors);
    let help = "Records in the config store that cannot be used. The log names them.";
    page.single(
        "tidegate_override_unusable_records_total",
        MetricType::Counter,
        help,
        stats.unusable_records,
    );
    let help = "Overrides that this node deleted from the config store after they had ended.";
    page.single("tidegate_override_purged_total", MetricType::Counter, help, stats.purged);
    let help = "Overrides of wildcards, which are all in memory.";
    page.single("tidegate_override_wildcards", MetricType::Gauge, help, stats.wildcards);
    let help = "Memory used by the filter of overridden keys.";
    page.single("tidegate_override_filter_bytes", MetricType::Gauge, help, stats.filter_bytes);
    let help =
        "1 if the filter of overridden keys is in use, 0 while it is built or if there are too many keys.";
    page.single("tidegate_override_filter_built", MetricType::Gauge, help, u64::from(stats.is_filter_built));
    let name = "tidegate_override_feed_age_seconds";
    page.family(name, MetricType::Gauge, "Time since this node last had all changes of the config store.");
    if let Some(age_ms) = stats.feed_age_ms {
        page.sample(name, &[], format_seconds(age_ms.saturating_mul(1_000_000)));
    }
}

fn write_rules(page: &mut Exposition, app: &App) {
    let rules = app.status.rules();
    page.single("tidegate_rules", MetricType::Gauge, "Active rules in all domains.", rules.rules);
    let name = "tidegate_rule_denies_all";
    page.family(name, MetricType::Gauge, "1 for a rule whose limits are all zero: a deny list.");
    if app.engine.unknown_domain() == UnknownDomain::Deny {
        page.sample(name, &[("domain", NO_RULE.domain), ("rule", UNKNOWN_DOMAIN_RULE)], 1);
    }
    let active = app.engine.rules();
    let denying = active.domains().flat_map(|domain| {
        let rules = limiting_rules(domain).filter(|rule| denies_all(rule));
        rules.map(|rule| [("domain", domain.name()), ("rule", &*rule.name)])
    });
    for labels in denying.take(RULES_COUNTED_MAX) {
        page.sample(name, &labels, 1);
    }
    let name = "tidegate_reloads_total";
    page.family(name, MetricType::Counter, "Reloads of changed rules, by result.");
    page.sample(name, &[("result", "replaced")], rules.replacements);
    page.sample(name, &[("result", "refused")], rules.rejections);
    let name = "tidegate_rules_last_reload_success";
    let help =
        "1 if the current rules files are active, 0 if they have errors and the previous rules are active.";
    page.single(name, MetricType::Gauge, help, u8::from(rules.failure.is_none()));
    let name = "tidegate_rules_last_reload_success_timestamp_seconds";
    page.single(
        name,
        MetricType::Gauge,
        "When the active rules were loaded.",
        format_timestamp(rules.loaded_at),
    );
}

/// Whether a rule denies every request that it applies to: it has limits, and all of them are zero.
fn denies_all(rule: &Rule) -> bool {
    let is_zero = |limit: &RuleLimit| {
        limit.limit.rate().limit() == 0 && limit.is_enforced() && !matches!(limit.action, Action::Elastic(_))
    };
    let are_zero = |limits: &[RuleLimit]| !limits.is_empty() && limits.iter().all(is_zero);
    match &rule.limits {
        RuleLimits::Same(limits) => are_zero(limits),
        RuleLimits::Tiers(tiers) => {
            tiers.plans.iter().all(|(_, limits)| are_zero(limits)) && are_zero(&tiers.default)
        }
    }
}

fn write_snapshots(page: &mut Exposition, app: &App) {
    let Some(snapshots) = app.status.snapshots() else { return };
    let name = "tidegate_snapshots_total";
    page.family(name, MetricType::Counter, "Attempts to write a snapshot, by result.");
    page.sample(name, &[("result", "written")], snapshots.write_count);
    page.sample(name, &[("result", "failed")], snapshots.failure_count);
    let name = "tidegate_snapshot_last_success";
    let help = "1 if the last attempt to write a snapshot succeeded, or if there was none yet.";
    page.single(name, MetricType::Gauge, help, u8::from(snapshots.failure.is_none()));
    if let Some(last) = &snapshots.last {
        let name = "tidegate_snapshot_last_success_timestamp_seconds";
        page.single(
            name,
            MetricType::Gauge,
            "When the last snapshot was written.",
            format_timestamp(last.written_at),
        );
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
    page.family(name, MetricType::Counter, "Reloads of a changed certificate, by result.");
    page.sample(name, &[("result", "replaced")], certificate.replacements);
    page.sample(name, &[("result", "refused")], certificate.rejections);
    let name = "tidegate_certificate_last_reload_success_timestamp_seconds";
    let help = "When the certificate in use was loaded.";
    page.single(name, MetricType::Gauge, help, format_timestamp(certificate.loaded_at));
}

fn format_timestamp(at: Timestamp) -> String {
    format_seconds(at.as_nanos())
}
