//! `/v1/check` and `/v1/peek`: one request or several.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use hyper::StatusCode;
use tidegate::Nanos;
use tidegate::rules::{Answer, Request};
use tidegate_core::PlanFull;

use super::reply::{Kind, Reply, reply};
use super::{answer_json, answered, asking};
use crate::request_json::{self, OneOrBatch, ReadRequest};
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
    let mut deciding: Vec<_> = all.iter().map(|read| Some(Box::pin(decide(app, read, result)))).collect();
    let mut results: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
    let all_decided = poll_fn(|context| {
        let mut is_pending = false;
        for (place, result) in deciding.iter_mut().zip(&mut results) {
            let Some(future) = place else { continue };
            match Pin::new(future).poll(context) {
                Poll::Ready(decided) => {
                    *result = decided.unwrap_or_else(|full| of_plan(&full));
                    *place = None;
                }
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    });
    all_decided.await;
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
