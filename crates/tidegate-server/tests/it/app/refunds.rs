//! Requests with negative hits over a shared store: some descriptors are refunded, others are charged.

use std::time::Duration;

use tidegate::store::NodeStore;
use tidegate::{MemoryStore, StoreError, SystemClock};
use tidegate_server::serve::rls::{self, DEGRADED_HEADER, Details, Header, Overall};
use tidegate_server::serve::settings::NegativeHits;
use tidegate_testing::fake_store::{FakeStore, StoreBehavior};

use super::*;

const RULES: &str = "
domain: api
rules:
  - { name: ten, key: [user], limit: { limit: 10, per: day, algorithm: sliding_log } }
";
const GIVES_BACK: &str =
    r#"{"entries": [{"key": "user", "value": "ann"}], "hitsAddend": "2", "isNegativeHits": true}"#;
const CHARGES: &str = r#"{"entries": [{"key": "user", "value": "bob"}]}"#;

/// The parts of an answer that these tests check.
struct Observed {
    overall: Overall,
    /// How many response and request headers mark the answer as degraded, and whether the metadata does.
    degraded: (usize, usize, Option<bool>),
    remaining: Vec<u32>,
}

fn shared() -> (App, FakeStore<SystemClock>) {
    let remote = FakeStore::new(SystemClock::new());
    let domains = rules::parse("rules.yaml", RULES).unwrap_or_else(|report| panic!("{report}")).domains;
    let memory = Arc::new(MemoryStore::bounded(1 << 20));
    let store = NodeStore::shared(Arc::new(remote.clone()), memory);
    let app = App::new(Engine::with_store(domains, store, SystemClock::new()).unwrap());
    (App { negative_hits: NegativeHits::Refund, ..app }, remote)
}

fn respond(app: &App, details: Details, descriptors: &[&str]) -> Observed {
    let body = format!(r#"{{"domain": "api", "descriptors": [{}]}}"#, descriptors.join(", "));
    let read = rls::protojson::read(body.as_bytes()).unwrap_or_else(|error| panic!("{}", error.message));
    let request = read.to_request().unwrap();
    let degraded_headers =
        |headers: &[Header]| headers.iter().filter(|header| header.name == DEGRADED_HEADER).count();
    let decided = ready_now(rls::decide(app, Protocol::Http, &request, None)).unwrap();
    let response = decided.response(&request, details);
    Observed {
        overall: response.overall,
        degraded: (
            degraded_headers(&response.response_headers),
            degraded_headers(&response.request_headers),
            response.metadata.as_ref().map(|metadata| metadata.degraded),
        ),
        remaining: response.statuses.iter().map(|status| status.remaining).collect(),
    }
}

/// The store is asked three times, each time with the rest of the time budget.
#[test]
fn all_store_operations_share_one_timeout() {
    let (app, remote) = shared();
    let answered = respond(&app, Details::Marked, &[CHARGES, GIVES_BACK]);
    assert_eq!((answered.overall, &*answered.remaining), (Overall::OK, &[9, 10][..]));
    assert_eq!(answered.degraded, (0, 0, None));
    assert_eq!(remote.calls(), 3);
    let spent = remote.spent_budgets();
    assert!(spent.len() == 2 && spent[0] > Duration::ZERO && spent[1] > spent[0], "{spent:?}");
}

#[test]
fn a_failed_refund_is_not_peeked_and_is_marked_degraded() {
    let (app, remote) = shared();
    remote.set_behavior(StoreBehavior::Fail(StoreError::TimedOut));
    let degraded = Overall { degraded: true, ..Overall::OK };
    let answered = respond(&app, Details::Marked, &[GIVES_BACK]);
    assert_eq!((answered.overall, answered.degraded), (degraded, (1, 1, Some(true))));
    assert_eq!(remote.calls(), 1);
    let answered = respond(&app, Details::Off, &[GIVES_BACK]);
    assert_eq!((answered.overall, answered.degraded), (degraded, (0, 0, None)));
    // The descriptor that is charged adds no second mark.
    let answered = respond(&app, Details::Marked, &[CHARGES, GIVES_BACK]);
    assert_eq!((answered.overall, answered.degraded), (degraded, (1, 1, Some(true))));
    assert_eq!(&*answered.remaining, [9, 0]);
    let samples = samples(&app);
    assert_eq!(samples["tidegate_operations_total{operation=\"refund\",result=\"timed_out\"}"], 3.0);
}
