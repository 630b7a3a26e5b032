//! `/v1/check` and `/v1/peek`: one request or a batch, or one request in a query.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use tidegate::rules::{Answer, Request};
use tidegate::{DecideOutput, EngineError, Nanos};

use super::answer_json::Provenance;
use super::reply::{ContentType, Reply, reply};
use super::{answer_json, answer_reply, error_reply, json_writer};
use crate::json::{self, JsonRequest, SingleOrBatch};
use crate::serve::future_set::FutureSet;
use crate::serve::{App, Protocol, SharedInstant};

/// Decides the request or batch in the body, and charges it.
pub(super) async fn check(app: &App, body: Bytes, provenance: Provenance) -> Reply {
    match json::read_single_or_batch(&body) {
        Ok(SingleOrBatch::Single(json)) => check_single(app, &json, provenance).await,
        Ok(SingleOrBatch::Batch(requests)) => Box::pin(check_all(app, &requests, provenance)).await,
        Err(error) => error_reply::request_error_reply(&error),
    }
}

/// Decides the request in a query, and charges it. Nothing between the client and the server may answer in its place.
pub(super) async fn check_query(app: &App, query: &str) -> Reply {
    let mut reply = match json::read_query(query) {
        Ok(json) => check_single(app, &json, Provenance::Hidden).await,
        Err(error) => error_reply::request_error_reply(&error),
    };
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

#[inline]
async fn check_single(app: &App, json: &JsonRequest<'_>, provenance: Provenance) -> Reply {
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json.domain(), descriptors: &descriptors };
    let mut instant = SharedInstant::default();
    let decided =
        app.check_with(Protocol::Http, &request, &mut instant, |output| check_reply(app, output, provenance));
    match decided {
        Ok(reply) => reply,
        Err(pending) => {
            let output = Box::pin(app.finish_check(Protocol::Http, &request, pending)).await;
            check_reply(app, output.as_ref(), provenance)
        }
    }
}

fn check_reply(app: &App, output: Result<&DecideOutput, &EngineError>, provenance: Provenance) -> Reply {
    match output {
        Ok(output) => answer_reply::answer_reply(app, &output.answer, output.waited, provenance, ""),
        Err(error) => error_reply::engine_error_reply(error),
    }
}

/// Answers as [`check`] would, without charging.
pub(super) async fn peek(app: &App, body: &Bytes, provenance: Provenance) -> Reply {
    match json::read_single_or_batch(body) {
        Ok(SingleOrBatch::Single(json)) => match peek_one(app, &json).await {
            Ok(output) => answer_reply::answer_reply(app, &output.answer, Nanos::ZERO, provenance, ""),
            Err(error) => error_reply::engine_error_reply(&error),
        },
        Ok(SingleOrBatch::Batch(requests)) => Box::pin(peek_all(app, &requests, provenance)).await,
        Err(error) => error_reply::request_error_reply(&error),
    }
}

async fn peek_one(app: &App, json: &JsonRequest<'_>) -> Result<DecideOutput, EngineError> {
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    app.peek(&Request { domain: json.domain(), descriptors: &descriptors }).await
}

/// Decides all requests in order. Those that must wait do so at the same time, and the others share a reading of the
/// clock: [`run_batch`] starts all of them in one pass.
async fn check_all(app: &App, requests: &[JsonRequest<'_>], provenance: Provenance) -> Reply {
    let instant = Mutex::new(SharedInstant::default());
    batch_reply(&run_batch(requests, |request| check_one(app, request, &instant, provenance)).await)
}

async fn check_one(
    app: &App,
    json: &JsonRequest<'_>,
    instant: &Mutex<SharedInstant>,
    provenance: Provenance,
) -> String {
    let entries = json.entry_refs();
    let descriptors = entries.descriptors();
    let request = Request { domain: json.domain(), descriptors: &descriptors };
    let decided = {
        let mut instant = instant.lock().unwrap_or_else(PoisonError::into_inner);
        app.check_with(Protocol::Http, &request, &mut instant, |output| check_result(output, provenance))
    };
    match decided {
        Ok(result) => result,
        Err(pending) => {
            check_result(app.finish_check(Protocol::Http, &request, pending).await.as_ref(), provenance)
        }
    }
}

/// The JSON of one decision of a batch.
fn check_result(output: Result<&DecideOutput, &EngineError>, provenance: Provenance) -> String {
    match output {
        Ok(output) => batch_result(&output.answer, output.waited, provenance),
        Err(error) => error_reply::engine_error_problem(error).to_json(),
    }
}

/// Peeks at all requests, at the same time if the store answers later.
async fn peek_all(app: &App, requests: &[JsonRequest<'_>], provenance: Provenance) -> Reply {
    let peek = |request| async move {
        match peek_one(app, request).await {
            Ok(output) => batch_result(&output.answer, Nanos::ZERO, provenance),
            Err(error) => error_reply::engine_error_problem(&error).to_json(),
        }
    };
    batch_reply(&run_batch(requests, peek).await)
}

/// Runs `answer` for each request, started in order. An error in one does not stop the others.
async fn run_batch<'r, 'b, F: Future<Output = String>>(
    requests: &'r [JsonRequest<'b>],
    answer: impl Fn(&'r JsonRequest<'b>) -> F,
) -> Vec<String> {
    let mut results: Vec<String> = vec![String::new(); requests.len()];
    let mut unstarted = requests.iter().zip(&mut results);
    let mut pending = FutureSet::new();
    poll_fn(|context| {
        for (request, result) in unstarted.by_ref() {
            let mut future = Box::pin(answer(request));
            match future.as_mut().poll(context) {
                Poll::Ready(answer) => *result = answer,
                Poll::Pending => pending.add((future, result)),
            }
        }
        pending.poll(context, |(future, result), context| {
            future.as_mut().poll(context).map(|answer| **result = answer)
        });
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop(pending);
    results
}

/// The JSON of one result of a batch.
fn batch_result(answer: &Answer, waited: Nanos, provenance: Provenance) -> String {
    let mut out = String::from('{');
    answer_json::write_fields(&mut out, answer, waited, provenance);
    out.push('}');
    out
}

fn batch_reply(results: &[String]) -> Reply {
    let bytes: usize = results.iter().map(|result| result.len() + 1).sum();
    let mut out = String::with_capacity(bytes + 16);
    out.push_str(r#"{"results":"#);
    json_writer::write_list(&mut out, results, |out, result| out.push_str(result));
    out.push('}');
    reply(StatusCode::OK, ContentType::Json, out)
}
