//! Metrics and logs around decisions, and the operations of listeners.

mod denial_log;
mod leases;
mod metrics;
mod refunds;
mod unknown_domain;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::Engine;
use tidegate::rules::{self, AnswerKind, Descriptor, Entry, Request};
use tidegate_server::serve::{App, Protocol};

fn app(rules: &str) -> App {
    let loaded = rules::parse("rules.yaml", rules).unwrap_or_else(|report| panic!("{report}"));
    App::in_memory(loaded.domains).unwrap()
}

/// The output of a future that must be ready on the first poll.
fn ready_now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

fn with_request<R>(domain: &str, attributes: &str, use_request: impl FnOnce(&Request<'_>) -> R) -> R {
    let entry = |pair| {
        let (key, value) = str::split_once(pair, '=').expect("key=value");
        Entry { key, value }
    };
    let entries: Vec<Entry<'_>> = attributes.split_whitespace().map(entry).collect();
    use_request(&Request { domain, descriptors: &[Descriptor::new(&entries, 1)] })
}

fn check(app: &App, by: Protocol, domain: &str, attributes: &str) -> AnswerKind {
    with_request(domain, attributes, |request| ready_now(app.check(by, request)).unwrap().answer.kind)
}

/// The samples of the metrics page, by name and labels.
fn samples(app: &App) -> BTreeMap<String, f64> {
    let page = app.metrics_page();
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("name value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    page.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}
