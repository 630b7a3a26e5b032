//! `/v1/check` and `/v1/peek`: one request or several.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use hyper::StatusCode;
use tidegate::Nanos;
use tidegate::rules::{Answer, Request};
use tidegate_core::PlanFull;

use super::reply::{Kind, Reply, reply};
use super::{answer_json, answered, asking};
use crate::request_json::{self, OneOrBatch, ReadRequest};
use crate::serve::sleepers::Sleepers;
use crate::serve::{App, Protocol};

/// Decides what the body asks, and charges for it.
pub(super) async fn check(app: &App, body: Bytes) -> Reply {
    match request_json::read_one_or_batch(&body) {
        Ok(OneOrBatch::One(read)) => {
            // As `decide` has it, without a future around the engine's: every one is copied to where it is polled.
            let entries = read.entries();
            let descriptors = entries.descriptors();
            let request = Request { domain: read.domain(), descriptors: &descriptors };
            let decided = app.check(Protocol::Http, &request, |decided| {
                answered::reply(&decided.answer, decided.waited, &[])
            });
            decided.await.unwrap_or_else(|full| asking::of_plan(&full))
        }
        Ok(OneOrBatch::Batch(all)) => Box::pin(check_all(app, &all)).await,
        Err(error) => asking::of_request(&error),
    }
}

/// Answers what the body asks as [`check`] would, and charges nothing.
pub(super) fn peek(app: &App, body: &Bytes) -> Reply {
    let peeked = match request_json::read_one_or_batch(body) {
        Ok(OneOrBatch::One(read)) => {
            lend(&read, |request| app.peek(request, |answer| answered::reply(answer, Nanos::ZERO, &[])))
        }
        Ok(OneOrBatch::Batch(all)) => {
            let peeked = |read| lend(read, |request| app.peek(request, |answer| result(answer, Nanos::ZERO)));
            let results = all.iter().map(|read| peeked(read).unwrap_or_else(|full| of_plan(&full)));
            Ok(of_results(&results.collect::<Vec<_>>()))
        }
        Err(error) => return asking::of_request(&error),
    };
    peeked.unwrap_or_else(|full| asking::of_plan(&full))
}

/// Lends what was read as a request, for as long as `use_it` takes.
pub(in crate::serve) fn lend<T>(read: &ReadRequest<'_>, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = read.entries();
    use_it(&Request { domain: read.domain(), descriptors: &entries.descriptors() })
}

async fn decide<R>(
    app: &App,
    read: &ReadRequest<'_>,
    answered: impl FnOnce(&Answer<'_>, Nanos) -> R,
) -> Result<R, PlanFull> {
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    app.check(Protocol::Http, &request, |decided| answered(&decided.answer, decided.waited)).await
}

/// Decides all of them in their order. Those that are held wait beside each other.
async fn check_all(app: &App, all: &[ReadRequest<'_>]) -> Reply {
    let mut results: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
    let mut unasked = all.iter().zip(&mut results);
    let mut held = Sleepers::new();
    let written = |decided: Result<Vec<u8>, PlanFull>| decided.unwrap_or_else(|full| of_plan(&full));
    poll_fn(|context| {
        for (read, result) in unasked.by_ref() {
            let mut deciding = Box::pin(decide(app, read, self::result));
            match deciding.as_mut().poll(context) {
                Poll::Ready(decided) => *result = written(decided),
                Poll::Pending => held.add((deciding, result)),
            }
        }
        held.poll(context, |(deciding, result), context| {
            deciding.as_mut().poll(context).map(|decided| **result = written(decided))
        });
        if held.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(held);
    of_results(&results)
}

/// The answer to one of several requests.
fn result(answer: &Answer<'_>, waited: Nanos) -> Vec<u8> {
    let mut out = vec![b'{'];
    answer_json::write_fields(&mut out, answer, waited);
    out.push(b'}');
    out
}

/// What is said of one of several requests that touches too many limits: the others have been decided.
#[cold]
fn of_plan(full: &PlanFull) -> Vec<u8> {
    asking::problem_of_plan(full).body()
}

fn of_results(results: &[Vec<u8>]) -> Reply {
    let bytes: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 16);
    out.extend_from_slice(br#"{"results":"#);
    super::json::list(&mut out, results, |out, result| out.extend_from_slice(result));
    out.push(b'}');
    reply(StatusCode::OK, Kind::Json, out)
}
