//! Requests of domains without rules.

use tidegate::rules::{self, AnswerKind, UNKNOWN_DOMAIN_RULE, UnknownDomain};
use tidegate_server::serve::denial_log::DenialLog;
use tidegate_server::serve::settings::LogKeys;
use tidegate_server::serve::{App, Protocol};

use crate::app::denial_log::log_lines;
use crate::app::{app, check, ready_now, samples, with_request};

const RULES: &str = "{ domain: checkout, rules: [ { name: a, key: [user], limit: 1 per hour } ] }";

fn denying_app() -> App {
    let App { engine, .. } = app(RULES);
    App::new(engine.with_unknown_domain(UnknownDomain::Deny))
}

fn warnings(app: App, doing: impl FnOnce(&App)) -> Vec<String> {
    let lines = log_lines(&app.with_denials(DenialLog::new(0, LogKeys::default())), doing);
    let warnings = lines.iter().filter(|line| line["level"] == "WARN");
    warnings.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_misspelled_domain_is_logged_once_and_counted() {
    let app = app(RULES);
    let warned = warnings(app, |app| {
        for _ in 0..3 {
            check(app, Protocol::Http, "chekout", "user=1");
            check(app, Protocol::Resp, "xyz", "user=1");
            check(app, Protocol::Http, "checkout", "user=1");
        }
        let samples = samples(app);
        let unknown =
            |protocol: &str| samples[&format!("tidegate_unknown_domain_total{{protocol=\"{protocol}\"}}")];
        assert_eq!(["http", "grpc", "resp"].map(unknown), [3.0, 0.0, 3.0]);
    });
    let expected = [
        "requests of the domain `chekout` are not limited: it has no rules (hint: did you mean `checkout`?)",
        "requests of the domain `xyz` are not limited: it has no rules (hint: the domains are: checkout)",
    ];
    assert_eq!(warned, expected);
}

/// Clients choose the names: the log and the memory stay bounded.
#[test]
fn many_unknown_domains_are_logged_in_part() {
    let warned = warnings(app(RULES), |app| {
        for number in 0..1_000 {
            check(app, Protocol::Http, &format!("{number}-{}", "x".repeat(100)), "user=1");
        }
    });
    assert_eq!(warned.len(), 101, "{warned:?}");
    assert!(warned[100].contains("tidegate_unknown_domain_total"), "{}", warned[100]);
    assert!(warned.iter().all(|line| line.len() < 300));
}

#[test]
fn they_can_be_denied() {
    let app = denying_app();
    with_request("chekout", "user=1", |request| {
        let output = ready_now(app.check(Protocol::Http, request)).unwrap();
        assert_eq!(output.answer.kind, AnswerKind::Denied);
        assert_eq!(&*output.answer.decider().unwrap().rule.name, UNKNOWN_DOMAIN_RULE);
        assert!(!ready_now(app.peek(request)).unwrap().answer.kind.passes());
    });
    assert_eq!(check(&app, Protocol::Http, "checkout", "user=1"), AnswerKind::Allowed);
    let denied =
        "tidegate_decisions_total{protocol=\"http\",domain=\"\",rule=\"unknown_domain\",decision=\"denied\"}";
    assert_eq!(samples(&app).get(denied), Some(&1.0));
    // A reload that adds the domain admits its requests.
    let known = "{ domain: chekout, rules: [ { name: a, key: [user], limit: 1 per hour } ] }";
    app.engine.replace(rules::parse("r.yaml", known).unwrap().domains).unwrap();
    assert_eq!(check(&app, Protocol::Http, "chekout", "user=1"), AnswerKind::Allowed);
    let warned = warnings(denying_app(), |app| {
        check(app, Protocol::Grpc, "nope", "user=1");
    });
    assert!(warned[0].contains("`nope` are denied"), "{warned:?}");
}
