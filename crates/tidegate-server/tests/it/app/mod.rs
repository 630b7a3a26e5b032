//! What is counted and logged around decisions, and what listeners can ask for.

mod given_back;
mod leases;
mod logged;
mod metrics;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::Engine;
use tidegate::rules::{self, Descriptor, Entry, AnswerKind, Request};
use tidegate_server::serve::{App, Protocol};

fn app(rules: &str) -> App {
    let loaded = rules::parse("rules.yaml", rules).unwrap_or_else(|report| panic!("{report}"));
    App::in_memory(loaded.domains).unwrap()
}

/// What a future comes to that need not wait.
fn ready_now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn with_request<R>(domain: &str, attributes: &str, ask: impl FnOnce(&Request<'_>) -> R) -> R {
    let entry = |pair| {
        let (key, value) = str::split_once(pair, '=').expect("key=value");
        Entry { key, value }
    };
    let entries: Vec<Entry<'_>> = attributes.split_whitespace().map(entry).collect();
    ask(&Request { domain, descriptors: &[Descriptor::new(&entries, 1)] })
}

fn check(app: &App, by: Protocol, domain: &str, attributes: &str) -> AnswerKind {
    with_request(domain, attributes, |request| ready_now(app.check(by, request)).unwrap().answer.kind)
}

/// The samples of the page, by name and labels.
fn samples(app: &App) -> BTreeMap<String, f64> {
    let page = app.metrics_page();
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("name value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    page.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}
