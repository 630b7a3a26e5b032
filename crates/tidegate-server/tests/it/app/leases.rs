//! Operations other than decisions.

use tidegate::{Nanos, Release, Renewal};
use tidegate_server::serve::Protocol;

use crate::app::{app, check, ready_now, samples, with_request};

const RULES: &str = "
domain: api
rules:
  - { name: jobs, key: [tenant], limit: { algorithm: concurrency, limit: 1, ttl: 1h } }
";

#[test]
fn leases_are_acquired_renewed_released_and_counted() {
    let app = app(RULES);
    with_request("api", "tenant=7", |request| {
        let half_an_hour = Some(Nanos::new(1_800_000_000_000));
        let acquire = || ready_now(app.acquire(Protocol::Http, request, half_an_hour)).unwrap().lease;
        let lease = acquire().expect("it is free");
        assert_eq!(acquire(), None);
        assert!(matches!(ready_now(app.renew(request, &lease.token, None)), Ok(Renewal::Renewed(_))));
        assert_eq!(ready_now(app.release(request, &lease.token)), Ok(Release::Released));
        assert_eq!(ready_now(app.release(request, &lease.token)), Ok(Release::AlreadyReleased));
        assert_eq!(ready_now(app.renew(request, &lease.token, None)), Ok(Renewal::AlreadyReleased));
        assert!(acquire().is_some());
    });
    let samples = samples(&app);
    let operations = |operation: &str, result: &str| {
        samples[&format!("tidegate_operations_total{{operation=\"{operation}\",result=\"{result}\"}}")]
    };
    assert_eq!(operations("acquire", "held"), 2.0);
    assert_eq!(operations("acquire", "nothing_held"), 1.0);
    assert_eq!(operations("release", "released"), 1.0);
    assert_eq!(operations("release", "already_released"), 1.0);
    assert_eq!(operations("renew", "renewed"), 1.0);
    let denied =
        "tidegate_decisions_total{protocol=\"http\",domain=\"api\",rule=\"jobs\",decision=\"denied\"}";
    assert_eq!(samples[denied], 1.0, "an acquire is a decision");
}

#[test]
fn peeks_refunds_resets_and_explanations() {
    let app = app(
        "{ domain: api, rules: [ { name: a, limit: { limit: 1 per hour, algorithm: fixed_window, align: first_hit } } ] }",
    );
    let passes = || check(&app, Protocol::Http, "api", "x=1").passes();
    with_request("api", "x=1", |request| {
        assert!(ready_now(app.peek(request)).unwrap().answer.kind.passes());
        assert_eq!([passes(), passes()], [true, false]);
        ready_now(app.refund(request)).unwrap();
        assert_eq!([passes(), passes()], [true, false]);
        let rules = app.engine.rules();
        let limits = rules.matched_limits(request);
        ready_now(app.reset(rules, limits)).unwrap();
        assert_eq!([passes(), passes()], [true, false]);
        let explained = ready_now(app.explain(request)).unwrap().to_string();
        assert!(explained.contains("decision: denied by a limit 1"), "{explained}");
    });
    let samples = samples(&app);
    for operation in ["peek", "refund", "reset", "explain"] {
        let name = format!("tidegate_operations_total{{operation=\"{operation}\",result=\"done\"}}");
        assert_eq!(samples.get(&name), Some(&1.0), "{operation}");
    }
    let allowed =
        "tidegate_decisions_total{protocol=\"http\",domain=\"api\",rule=\"a\",decision=\"allowed\"}";
    assert_eq!(samples[allowed], 3.0, "a peek is not a decision");
}
