//! `/v1/check` and `/v1/peek`: one request or several.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use hyper::StatusCode;
use tidegate::rules::{Answer, Request};
use tidegate::{Decided, EngineError, Nanos};

use super::reply::{Kind, Reply, reply};
use super::{answer_json, answered, asking};
use crate::request_json::{self, OneOrBatch, ReadRequest};
use crate::serve::sleepers::Sleepers;
use crate::serve::{App, Protocol};

/// Decides what the body asks, and charges for it.
pub(super) async fn check(app: &App, body: Bytes) -> Reply {
    match request_json::read_one_or_batch(&body) {
        Ok(OneOrBatch::One(read)) => {
            let entries = read.entries();
            let descriptors = entries.descriptors();
            let request = Request { domain: read.domain(), descriptors: &descriptors };
            let asked_at = app.asked_at();
            let deciding = app.start_check(&request, asked_at);
            match deciding.as_now() {
                Some(decided) => {
                    app.note(Protocol::Http, &request, decided, asked_at);
                    check_reply(decided)
                }
                None => {
                    check_reply(&Box::pin(app.finish(Protocol::Http, &request, deciding, asked_at)).await)
                }
            }
        }
        Ok(OneOrBatch::Batch(all)) => Box::pin(check_all(app, &all)).await,
        Err(error) => asking::of_request(&error),
    }
}

fn check_reply(decided: &Result<Decided, EngineError>) -> Reply {
    match decided {
        Ok(decided) => answered::reply(&decided.answer, decided.waited, &[]),
        Err(error) => asking::of_error(error),
    }
}

/// Answers what the body asks as [`check`] would, and charges nothing.
pub(super) async fn peek(app: &App, body: &Bytes) -> Reply {
    match request_json::read_one_or_batch(body) {
        Ok(OneOrBatch::One(read)) => match look(app, &read).await {
            Ok(peeked) => answered::reply(&peeked.answer, Nanos::ZERO, &[]),
            Err(error) => asking::of_error(&error),
        },
        Ok(OneOrBatch::Batch(all)) => Box::pin(peek_all(app, &all)).await,
        Err(error) => asking::of_request(&error),
    }
}

async fn look(app: &App, read: &ReadRequest<'_>) -> Result<Decided, EngineError> {
    let entries = read.entries();
    let descriptors = entries.descriptors();
    app.peek(&Request { domain: read.domain(), descriptors: &descriptors }).await
}

async fn decide(app: &App, read: &ReadRequest<'_>) -> Result<Decided, EngineError> {
    let entries = read.entries();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    app.check(Protocol::Http, &request).await
}

/// Decides all of them in their order. Those that are held wait beside each other.
async fn check_all(app: &App, all: &[ReadRequest<'_>]) -> Reply {
    let decided = |read| async move {
        match decide(app, read).await {
            Ok(decided) => result(&decided.answer, decided.waited),
            Err(error) => asking::problem_of(&error).body(),
        }
    };
    of_results(&each(all, decided).await)
}

/// Looks at all of them, beside each other where that takes a while.
async fn peek_all(app: &App, all: &[ReadRequest<'_>]) -> Reply {
    let looked = |read| async move {
        match look(app, read).await {
            Ok(peeked) => result(&peeked.answer, Nanos::ZERO),
            Err(error) => asking::problem_of(&error).body(),
        }
    };
    of_results(&each(all, looked).await)
}

/// What `answer` makes of each of them, asked in their order. The others have been decided, too, where one comes to nothing.
async fn each<'r, 'b, F: Future<Output = Vec<u8>>>(
    all: &'r [ReadRequest<'b>],
    answer: impl Fn(&'r ReadRequest<'b>) -> F,
) -> Vec<Vec<u8>> {
    let mut results: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
    let mut unasked = all.iter().zip(&mut results);
    let mut held = Sleepers::new();
    poll_fn(|context| {
        for (read, result) in unasked.by_ref() {
            let mut answering = Box::pin(answer(read));
            match answering.as_mut().poll(context) {
                Poll::Ready(answer) => *result = answer,
                Poll::Pending => held.add((answering, result)),
            }
        }
        held.poll(context, |(answering, result), context| {
            answering.as_mut().poll(context).map(|answer| **result = answer)
        });
        if held.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(held);
    results
}

/// The answer to one of several requests.
fn result(answer: &Answer, waited: Nanos) -> Vec<u8> {
    let mut out = vec![b'{'];
    answer_json::write_fields(&mut out, answer, waited);
    out.push(b'}');
    out
}

fn of_results(results: &[Vec<u8>]) -> Reply {
    let bytes: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 16);
    out.extend_from_slice(br#"{"results":"#);
    super::json::list(&mut out, results, |out, result| out.extend_from_slice(result));
    out.push(b'}');
    reply(StatusCode::OK, Kind::Json, out)
}
