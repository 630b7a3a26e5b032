//! The metrics page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;

use tidegate::Clock as _;
use tidegate::rules::{self, Descriptor, Entry, Request, RequestLimit, TimeUnit, UnknownDomain};
use tidegate::snapshot::{RestoreStatus, SnapshotReport};
use tidegate_core::OutcomeKind;
use tidegate_server::serve::metrics::{DescriptorMetrics, RULES_COUNTED_MAX, TIMING_SAMPLE_EVERY};
use tidegate_server::serve::status::SnapshotStatus;
use tidegate_server::serve::{App, Protocol};

use crate::app::{app, check, ready_now, samples, with_request};

const RULES: &str = "
domain: api
rules:
  - { name: per-user, match: { user: { exists: true } }, key: [user], limit: 2 per hour }
  - { name: dry, match: { dry: { exists: true } }, key: [dry], limit: 1 per hour, action: shadow }
  - { name: ban, match: { ban: { exists: true } }, key: [ban], limit: 1 per hour, action: shadow_ban }
  - { name: try, match: { try: { exists: true } }, limit: 9 per hour, candidate: 1 per hour }
";

fn decisions(domain: &str, rule: &str, decision: &str) -> String {
    format!(
        "tidegate_decisions_total{{protocol=\"http\",domain=\"{domain}\",rule=\"{rule}\",decision=\"{decision}\"}}"
    )
}

#[test]
fn decisions_are_counted_by_the_rule_that_made_them() {
    let app = app(RULES);
    for attributes in ["user=1", "dry=1", "ban=1", "try=1", "nothing=1"] {
        for _ in 0..3 {
            check(&app, Protocol::Http, "api", attributes);
        }
    }
    let samples = samples(&app);
    let expected = [
        ("per-user", "allowed", 2.0),
        ("per-user", "denied", 1.0),
        ("dry", "allowed", 1.0),
        ("dry", "shadow_denied", 2.0),
        ("ban", "allowed", 1.0),
        ("ban", "shadow_banned", 2.0),
        ("try", "allowed", 3.0),
        ("", "allowed", 3.0),
    ];
    for (rule, decision, count) in expected {
        assert_eq!(samples.get(&decisions("api", rule, decision)), Some(&count), "{rule} {decision}");
    }
    let of_candidate = "tidegate_candidate_denied_total{domain=\"api\",rule=\"try\"}";
    assert_eq!(samples[of_candidate], 2.0);
}

/// A dry run beside a rule with less remaining: the share of its own requests that it would deny is in its own series,
/// also if another rule decides or denies them.
#[test]
fn each_rule_counts_the_requests_that_it_applies_to() {
    let app = app("
domain: api
rules:
  - { name: dry, limits: [5 per hour, { name: wide, limit: 500 per hour }], action: shadow }
  - { name: real, limit: 18 per hour, candidate: 4 per hour }
  - { name: never-here, match: { x: '1' }, limit: 1 per hour }
");
    for _ in 0..20 {
        check(&app, Protocol::Http, "api", "user=1");
    }
    let samples = samples(&app);
    let evaluations = |rule: &str, decision: &str| {
        let name = format!(
            "tidegate_rule_evaluations_total{{domain=\"api\",rule=\"{rule}\",decision=\"{decision}\"}}"
        );
        samples.get(&name).copied()
    };
    assert_eq!([evaluations("dry", "allowed"), evaluations("dry", "shadow_denied")], [Some(5.0), Some(15.0)]);
    assert_eq!([evaluations("real", "allowed"), evaluations("real", "denied")], [Some(18.0), Some(2.0)]);
    assert!(!samples.keys().any(|name| name.contains("never-here")), "it applied to no request");
    let of_candidate =
        |name: &str| samples[&format!("tidegate_candidate_{name}_total{{domain=\"api\",rule=\"real\"}}")];
    assert_eq!([of_candidate("evaluations"), of_candidate("denied")], [20.0, 16.0]);
}

#[test]
fn deny_lists_are_marked() {
    let app = app("
domain: api
rules:
  - { name: blocked, match: { ip: 192.0.2.1 }, limit: 0 per second }
  - { name: dry-block, match: { ip: 192.0.2.2 }, limit: 0 per second, action: shadow }
  - { name: exempt, match: { ip: 192.0.2.3 }, limit: unlimited }
  - { name: strict, limit: 1 per hour }
  - name: by-plan
    tiers: { by: plan, plans: { none: 0 per second, free: 1 per second }, default: none }
");
    let samples = samples(&app);
    let marked: Vec<&String> =
        samples.keys().filter(|name| name.starts_with("tidegate_rule_denies_all{")).collect();
    assert_eq!(marked, ["tidegate_rule_denies_all{domain=\"api\",rule=\"blocked\"}"]);
}

/// The alert about rules that deny most requests leaves out these labels.
#[test]
fn the_rule_for_unknown_domains_is_marked_while_it_denies() {
    let app = app(RULES);
    let name = "tidegate_rule_denies_all{domain=\"\",rule=\"unknown_domain\"}";
    assert_eq!(samples(&app).get(name), None);
    let app = App { engine: app.engine.clone().with_unknown_domain(UnknownDomain::Deny), ..app };
    check(&app, Protocol::Http, "nobodys", "user=1");
    let samples = samples(&app);
    assert_eq!(samples.get(name), Some(&1.0));
    let evaluated =
        "tidegate_rule_evaluations_total{domain=\"\",rule=\"unknown_domain\",decision=\"denied\"}";
    assert_eq!(samples.get(evaluated), Some(&1.0), "it has the same labels");
}

/// A limit that a request brings along has its own label, also beside a rule that has the name of its rule in answers.
#[test]
fn limits_of_requests_have_their_own_label() {
    let app =
        app("{ domain: api, rules: [ { name: override, key: [user], missing: skip, limit: 5 per day } ] }");
    let entries = [Entry { key: "user", value: "1" }];
    let limit = Some(RequestLimit { units: 5, per: TimeUnit::Hour });
    for descriptor in [Descriptor::new(&entries, 1), Descriptor { limit, ..Descriptor::new(&entries, 1) }] {
        let request = Request { domain: "api", descriptors: &[descriptor] };
        assert!(ready_now(app.check(Protocol::Http, &request)).is_ok());
    }
    let samples = samples(&app);
    for rule in ["override", "request_limit"] {
        assert_eq!(samples.get(&decisions("api", rule, "allowed")), Some(&1.0), "{rule}");
    }
}

#[test]
fn protocols_are_told_apart() {
    let app = app(RULES);
    for (by, times) in Protocol::ALL.into_iter().zip(1..) {
        for number in 0..times {
            check(&app, by, "api", &format!("user={number}"));
        }
    }
    app.metrics.count_throttled(OutcomeKind::Denied, 1);
    let samples = samples(&app);
    let of = |protocol: &str| {
        let prefix = format!("tidegate_decisions_total{{protocol=\"{protocol}\",domain=\"api\"");
        samples.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, count)| count).sum::<f64>()
    };
    assert_eq!(["http", "grpc", "resp", "admin"].map(of), [1.0, 2.0, 3.0, 4.0]);
    let throttled =
        "tidegate_decisions_total{protocol=\"resp\",domain=\"\",rule=\"cl.throttle\",decision=\"denied\"}";
    assert_eq!(samples[throttled], 1.0);
}

/// Keys and unknown domains that clients send add nothing to the page.
#[test]
fn client_input_adds_no_metrics() {
    let app = app(RULES);
    let check_user = |number: u32| {
        check(&app, Protocol::Http, "api", &format!("user={number}"));
        check(&app, Protocol::Http, &format!("nobodys-{number}"), &format!("user={number}"));
        check(&app, Protocol::Http, "api", &format!("odd-{number}=1"));
    };
    check_user(0);
    let names = |samples: BTreeMap<String, f64>| samples.into_keys().collect::<BTreeSet<_>>();
    let before = names(samples(&app));
    (1..1_000).for_each(check_user);
    assert_eq!(names(samples(&app)), before);
    assert_eq!(samples(&app)[&decisions("", "", "allowed")], 1_000.0);
    assert!(!app.metrics_page().contains("nobodys"));
}

#[test]
fn rules_over_the_limit_share_one_counter() {
    let rule = |number: usize| {
        format!("  - {{ name: r{number}, match: {{ n: \"{number}\" }}, limit: 5 per hour }}\n")
    };
    let many = RULES_COUNTED_MAX + 100;
    let app = app(&format!("domain: api\nrules:\n{}", (0..many).map(rule).collect::<String>()));
    for number in 0..many {
        check(&app, Protocol::Http, "api", &format!("n={number}"));
    }
    let samples = samples(&app);
    let all: Vec<(&String, &f64)> =
        samples.iter().filter(|(name, _)| name.starts_with("tidegate_decisions_total")).collect();
    assert_eq!(all.iter().map(|(_, count)| **count).sum::<f64>(), many as f64);
    // The series without a rule exist from the start, for three protocols.
    assert_eq!(all.len(), RULES_COUNTED_MAX + 3);
    assert_eq!(samples[&decisions("", "other", "allowed")], 101.0);
}

#[test]
fn a_reload_resets_no_counter() {
    let app = app(RULES);
    check(&app, Protocol::Http, "api", "user=1");
    let other_rules = "{ domain: api, rules: [ { name: other-rule, limit: 1 per hour } ] }";
    app.engine.replace(rules::parse("r.yaml", other_rules).unwrap().domains).unwrap();
    check(&app, Protocol::Http, "api", "user=1");
    app.engine.replace(rules::parse("r.yaml", RULES).unwrap().domains).unwrap();
    check(&app, Protocol::Http, "api", "user=1");
    let samples = samples(&app);
    assert_eq!(samples[&decisions("api", "per-user", "allowed")], 2.0);
    assert_eq!(samples[&decisions("api", "other-rule", "allowed")], 1.0);
}

#[test]
fn decision_times_are_sampled() {
    let app = app(RULES);
    // On a new thread, because each thread counts separately.
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..10 * TIMING_SAMPLE_EVERY {
                check(&app, Protocol::Grpc, "api", &format!("user={number}"));
            }
        });
    });
    let samples = samples(&app);
    assert_eq!(samples["tidegate_decision_seconds_count{protocol=\"grpc\"}"], 10.0);
    assert_eq!(samples["tidegate_decision_seconds_count{protocol=\"http\"}"], 0.0);
    assert_eq!(samples["tidegate_decision_seconds_bucket{protocol=\"grpc\",le=\"+Inf\"}"], 10.0);
    let sums = ["tidegate_matching_seconds", "tidegate_store_seconds"].map(|name| {
        assert_eq!(samples[&format!("{name}_count")], 10.0);
        samples[&format!("{name}_sum")]
    });
    let whole = samples["tidegate_decision_seconds_sum{protocol=\"grpc\"}"];
    assert!(sums.iter().all(|part| *part > 0.0) && sums.iter().sum::<f64>() <= whole, "{sums:?} of {whole}");
}

#[test]
fn connections_come_and_go() {
    let app = app(RULES);
    let metrics = &app.metrics;
    (0..3).for_each(|_| metrics.connection_opened(Protocol::Resp));
    metrics.connection_closed(Protocol::Resp);
    metrics.count_over_connection_limit(Protocol::Resp);
    metrics.count_wrong_protocol(Protocol::Resp, "http");
    metrics.count_rejected_request(Protocol::Grpc, "bad_message");
    metrics.count_rejected_request(Protocol::Grpc, "bad_message");
    let samples = samples(&app);
    let expected = [
        ("tidegate_connections{protocol=\"resp\"}", 2.0),
        ("tidegate_connections_total{protocol=\"resp\"}", 3.0),
        ("tidegate_connections{protocol=\"http\"}", 0.0),
        ("tidegate_connections_refused_total{protocol=\"resp\",reason=\"too_many\"}", 1.0),
        ("tidegate_connections_refused_total{protocol=\"resp\",reason=\"http\"}", 1.0),
        ("tidegate_requests_rejected_total{protocol=\"grpc\",reason=\"bad_message\"}", 2.0),
    ];
    for (name, value) in expected {
        assert_eq!(samples.get(name), Some(&value), "{name}");
    }
}

#[test]
fn store_rules_and_process_metrics() {
    let app = app(RULES);
    app.status.rules_loaded(Vec::new(), &app.engine.rules());
    check(&app, Protocol::Http, "api", "user=1");
    let samples = samples(&app);
    assert_eq!(samples["tidegate_live_keys"], 1.0);
    assert_eq!(samples["tidegate_rules"], 4.0);
    assert_eq!(samples["tidegate_store_bytes_max"], (256 << 20) as f64);
    assert_eq!(samples["tidegate_rules_last_reload_success"], 1.0);
    assert_eq!(samples["tidegate_evictions_total"], 0.0);
    assert_eq!(samples["tidegate_waiting_requests"], 0.0);
    assert!(samples["tidegate_rules_last_reload_success_timestamp_seconds"] > 1.7e9);
    assert!(samples.keys().any(|name| name.starts_with("tidegate_build_info{version=\"")));
}

#[test]
fn rejected_rules_and_snapshot_metrics() {
    let app = app(RULES);
    let report = rules::parse("r.yaml", "rules: 7").unwrap_err();
    app.status.rules_rejected(report);
    let mut last = SnapshotReport::default();
    (last.entries, last.bytes, last.written_at) = (3, 4_096, app.engine.clock().now());
    app.status.set_snapshots(SnapshotStatus {
        path: "x".into(),
        every: std::time::Duration::from_secs(10),
        restored: RestoreStatus::NoSnapshot,
        last: Some(last),
        write_count: 2,
        failure_count: 1,
        failure: None,
    });
    let samples = samples(&app);
    assert_eq!(samples["tidegate_rules_last_reload_success"], 0.0);
    assert_eq!(samples["tidegate_reloads_total{result=\"refused\"}"], 1.0);
    assert_eq!(samples["tidegate_snapshots_total{result=\"failed\"}"], 1.0);
    assert_eq!(samples["tidegate_snapshot_bytes"], 4_096.0);
}

#[test]
fn requests_with_too_many_limits_are_rejected() {
    let limits = vec!["5 per hour"; 30].join(", ");
    // 1,050 limits.
    let rules: String =
        (0..35).map(|number| format!("  - {{ name: r{number}, limits: [ {limits} ] }}\n")).collect();
    let app = app(&format!("domain: api\nrules:\n{rules}"));
    let checked = with_request("api", "a=1", |request| ready_now(app.check(Protocol::Http, request)));
    assert!(checked.is_err());
    assert_eq!(
        samples(&app)["tidegate_requests_rejected_total{protocol=\"http\",reason=\"too_many_limits\"}"],
        1.0
    );
}

/// Prints how long counting takes. Not asserted, because machines differ. Run it with `--nocapture`.
#[test]
fn counting_cost() {
    let app = Arc::new(app(RULES));
    let entries = [Entry { key: "user", value: "42" }];
    let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
    let answer = ready_now(app.engine.check(&request)).unwrap().answer;
    const TIMES: u64 = 1_000_000;
    let took_ns = |what: &dyn Fn()| {
        let from = app.engine.clock().now().as_nanos();
        (0..TIMES).for_each(|_| what());
        (app.engine.clock().now().as_nanos() - from) as f64 / TIMES as f64
    };
    let counting = took_ns(&|| app.metrics.count_decision(Protocol::Resp, request.domain, &answer, || true));
    let peeking = took_ns(&|| drop(app.engine.peek(&request)));
    println!("counting {counting:.1} ns, a peek {peeking:.1} ns");
    let samples_after = samples(&app);
    let name =
        "tidegate_decisions_total{protocol=\"resp\",domain=\"api\",rule=\"per-user\",decision=\"allowed\"}";
    assert_eq!(samples_after[name], TIMES as f64);
}

/// Prometheus can read the page: every family has help and type before its samples, and no sample appears twice.
#[test]
fn the_page_is_well_formed() {
    let app: App = app(RULES);
    check(&app, Protocol::Http, "api", "user=1");
    let page = app.metrics_page();
    let (mut family, mut series) = (String::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert!(help.ends_with('.'), "{line}");
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            assert_eq!(typed.split(' ').next(), Some(family.as_str()));
        } else {
            assert!(line.starts_with(&family), "{line} in {family}");
            assert!(series.insert(line.rsplit_once(' ').unwrap().0), "{line} appears twice");
        }
    }
    assert!(page.ends_with('\n'));
}

const DESCRIPTORS: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: path
    value: /a*
    share_threshold: true
    descriptors:
      - key: method
        value_to_metric: true
        rate_limit: { unit: day, requests_per_unit: 1 }
  - key: dry
    detailed_metric: true
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
";

/// Hits in total, within, near and over the limit, and in shadow mode, by descriptor.
fn descriptor_hits(app: &App, domain: &str, descriptor: &str) -> [Option<f64>; 5] {
    let samples = samples(app);
    ["hits", "within_limit", "near_limit", "over_limit", "shadow_mode"].map(|metric| {
        let name =
            format!("tidegate_descriptor_{metric}_total{{domain=\"{domain}\",descriptor=\"{descriptor}\"}}");
        samples.get(&name).copied()
    })
}

#[test]
fn hits_are_counted_by_descriptor() {
    let app = app(DESCRIPTORS);
    for _ in 0..12 {
        check(&app, Protocol::Grpc, "edge", "user=ann");
    }
    check(&app, Protocol::Grpc, "edge", "user=bob");
    let numbers = |numbers: [f64; 5]| numbers.map(Some);
    assert_eq!(descriptor_hits(&app, "edge", "user"), numbers([13.0, 11.0, 2.0, 2.0, 0.0]));
    for attributes in ["path=/a/1 method=GET", "path=/a/2 method=GET", "path=/a/2 method=PUT"] {
        check(&app, Protocol::Http, "edge", attributes);
    }
    assert_eq!(descriptor_hits(&app, "edge", "path_//a*/method_GET"), numbers([2.0, 1.0, 1.0, 1.0, 0.0]));
    assert_eq!(descriptor_hits(&app, "edge", "path_//a*/method_PUT"), numbers([1.0, 1.0, 1.0, 0.0, 0.0]));
    for attributes in ["dry=1", "dry=1", "dry=2"] {
        check(&app, Protocol::Resp, "edge", attributes);
    }
    assert_eq!(descriptor_hits(&app, "edge", "dry_1"), numbers([2.0, 1.0, 1.0, 1.0, 1.0]));
    assert_eq!(descriptor_hits(&app, "edge", "dry_2"), numbers([1.0, 1.0, 1.0, 0.0, 0.0]));
    check(&app, Protocol::Http, "edge", "nothing=1");
    check(&app, Protocol::Http, "unknown", "user=1");
    let page = app.metrics_page();
    assert_eq!(page.matches("tidegate_descriptor_hits_total{").count(), 5, "{page}");
}

/// As in envoyproxy/ratelimit: a request that crosses the limit has hits on both sides of it.
#[test]
fn a_request_that_crosses_the_limit_is_split() {
    let rules = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: dry, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: bucket, rate_limit: { unit: day, requests_per_unit: 5 }, tidegate: { algorithm: gcra } }
";
    let app = app(rules);
    for (key, expected) in [
        ("user", [10.0, 3.0, 1.0, 5.0, 0.0]),
        ("dry", [10.0, 3.0, 1.0, 5.0, 5.0]),
        // It does not count what it denies.
        ("bucket", [10.0, 3.0, 0.0, 7.0, 0.0]),
    ] {
        for hits in [3, 4, 3] {
            let entries = [Entry { key, value: "1" }];
            let request = Request { domain: "edge", descriptors: &[Descriptor::new(&entries, hits)] };
            assert!(ready_now(app.check(Protocol::Grpc, &request)).is_ok());
        }
        assert_eq!(descriptor_hits(&app, "edge", key), expected.map(Some), "{key}");
    }
}

#[test]
fn descriptors_are_bounded_and_the_ratio_is_a_setting() {
    let settings = DescriptorMetrics { descriptors_max: 3, near_limit_ratio: 0.5 };
    let app = app(DESCRIPTORS).with_descriptor_metrics(settings);
    for number in 0..20 {
        check(&app, Protocol::Http, "edge", &format!("dry={number}"));
    }
    assert_eq!(descriptor_hits(&app, "", "other")[0], Some(17.0));
    let app = crate::app::app(DESCRIPTORS).with_descriptor_metrics(settings);
    for _ in 0..7 {
        check(&app, Protocol::Http, "edge", "user=ann");
    }
    assert_eq!(descriptor_hits(&app, "edge", "user")[2], Some(2.0));
    let none = DescriptorMetrics { descriptors_max: 0, ..settings };
    let app = crate::app::app(DESCRIPTORS).with_descriptor_metrics(none);
    check(&app, Protocol::Http, "edge", "user=ann");
    assert!(!app.metrics_page().contains("tidegate_descriptor_hits_total{"));
}
