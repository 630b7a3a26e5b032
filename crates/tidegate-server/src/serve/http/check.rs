//! `/v1/check` and `/v1/peek`: one request or several.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use hyper::StatusCode;
use tidegate::rules::{Answer, Request};
use tidegate::{DecideOutput, EngineError, Nanos};

use super::reply::{ContentType, Reply, reply};
use super::{answer_json, answered, asking};
use crate::json::{self, SingleOrBatch, JsonRequest};
use crate::serve::sleepers::FutureSet;
use crate::serve::{App, Protocol};

/// Decides what the body asks, and charges for it.
pub(super) async fn check(app: &App, body: Bytes) -> Reply {
    match json::read_single_or_batch(&body) {
        Ok(SingleOrBatch::Single(read)) => {
            let entries = read.entry_refs();
            let descriptors = entries.descriptors();
            let request = Request { domain: read.domain(), descriptors: &descriptors };
            let asked_at = app.timing_start();
            let deciding = app.start_check(&request, asked_at);
            match deciding.as_now() {
                Some(decided) => {
                    app.record(Protocol::Http, &request, decided, asked_at);
                    check_reply(decided)
                }
                None => {
                    check_reply(&Box::pin(app.finish(Protocol::Http, &request, deciding, asked_at)).await)
                }
            }
        }
        Ok(SingleOrBatch::Batch(all)) => Box::pin(check_all(app, &all)).await,
        Err(error) => asking::request_error_reply(&error),
    }
}

fn check_reply(decided: &Result<DecideOutput, EngineError>) -> Reply {
    match decided {
        Ok(decided) => answered::answer_reply(&decided.answer, decided.waited, &[]),
        Err(error) => asking::engine_error_reply(error),
    }
}

/// Answers what the body asks as [`check`] would, and charges nothing.
pub(super) async fn peek(app: &App, body: &Bytes) -> Reply {
    match json::read_single_or_batch(body) {
        Ok(SingleOrBatch::Single(read)) => match peek_one(app, &read).await {
            Ok(peeked) => answered::answer_reply(&peeked.answer, Nanos::ZERO, &[]),
            Err(error) => asking::engine_error_reply(&error),
        },
        Ok(SingleOrBatch::Batch(all)) => Box::pin(peek_all(app, &all)).await,
        Err(error) => asking::request_error_reply(&error),
    }
}

async fn peek_one(app: &App, read: &JsonRequest<'_>) -> Result<DecideOutput, EngineError> {
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    app.peek(&Request { domain: read.domain(), descriptors: &descriptors }).await
}

async fn check_one(app: &App, read: &JsonRequest<'_>) -> Result<DecideOutput, EngineError> {
    let entries = read.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: read.domain(), descriptors: &descriptors };
    app.check(Protocol::Http, &request).await
}

/// Decides all of them in their order. Those that are held wait beside each other.
async fn check_all(app: &App, all: &[JsonRequest<'_>]) -> Reply {
    let decided = |read| async move {
        match check_one(app, read).await {
            Ok(decided) => batch_result(&decided.answer, decided.waited),
            Err(error) => asking::engine_error_problem(&error).to_json(),
        }
    };
    batch_reply(&run_batch(all, decided).await)
}

/// Looks at all of them, beside each other where that takes a while.
async fn peek_all(app: &App, all: &[JsonRequest<'_>]) -> Reply {
    let looked = |read| async move {
        match peek_one(app, read).await {
            Ok(peeked) => batch_result(&peeked.answer, Nanos::ZERO),
            Err(error) => asking::engine_error_problem(&error).to_json(),
        }
    };
    batch_reply(&run_batch(all, looked).await)
}

/// What `answer` makes of each of them, asked in their order. The others have been decided, too, where one comes to nothing.
async fn run_batch<'r, 'b, F: Future<Output = Vec<u8>>>(
    all: &'r [JsonRequest<'b>],
    answer: impl Fn(&'r JsonRequest<'b>) -> F,
) -> Vec<Vec<u8>> {
    let mut results: Vec<Vec<u8>> = vec![Vec::new(); all.len()];
    let mut unasked = all.iter().zip(&mut results);
    let mut held = FutureSet::new();
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
fn batch_result(answer: &Answer, waited: Nanos) -> Vec<u8> {
    let mut out = vec![b'{'];
    answer_json::write_fields(&mut out, answer, waited);
    out.push(b'}');
    out
}

fn batch_reply(results: &[Vec<u8>]) -> Reply {
    let bytes: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut out = Vec::with_capacity(bytes + 16);
    out.extend_from_slice(br#"{"results":"#);
    super::json::write_list(&mut out, results, |out, result| out.extend_from_slice(result));
    out.push(b'}');
    reply(StatusCode::OK, ContentType::Json, out)
}
