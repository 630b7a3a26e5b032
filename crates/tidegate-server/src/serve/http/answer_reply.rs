//! An answer as a reply: body, status and rate limit headers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::Nanos;
use tidegate::rules::denial::{detail, is_forbidden};
use tidegate::rules::{Answer, AnswerKind};
use tidegate_core::problem::ProblemKind;

use super::answer_json::Provenance;
use super::reply::{BlockedKey, Reply};
use super::{answer_json, json_writer, limit_headers};
use crate::serve::headers::{self, HeaderEnds};
use crate::serve::{App, rls};

/// Typical size of a body without its limits, plus the headers, in bytes.
const ANSWER_BYTES: usize = 640;

/// Marks a decision made without the shared store, because it did not answer.
pub(super) const DEGRADED_HEADER: HeaderName = HeaderName::from_static(rls::DEGRADED_HEADER);
/// Marks a decision whose charge too few replicas of the shared store have.
const UNREPLICATED_HEADER: HeaderName = HeaderName::from_static(rls::UNREPLICATED_HEADER);

/// Where the parts of an answer are in its text.
pub(super) struct AnswerLayout {
    pub status: StatusCode,
    pub kind: AnswerKind,
    /// The body is the text up to here. The values of the headers follow.
    pub body_end: usize,
    pub header_ends: HeaderEnds,
}

impl AnswerLayout {
    pub fn content_type(&self) -> &'static str {
        if self.status == StatusCode::OK { "application/json" } else { "application/problem+json" }
    }
}

/// A reply with status 200, 429 if the request is denied (403 if an override blocks its key that way), or 503 if the
/// store did not decide. `more` has additional fields, each after a comma.
pub(super) fn answer_reply(
    app: &App,
    answer: &Answer,
    waited: Nanos,
    provenance: Provenance,
    more: &str,
) -> Reply {
    let mut text = String::new();
    let layout = write_answer(&mut text, app, answer, waited, provenance, more);
    reply_of(text, &layout, answer)
}

/// The reply of an answer with this text.
pub(super) fn reply_of(text: String, layout: &AnswerLayout, answer: &Answer) -> Reply {
    let text = Bytes::from(text);
    let mut reply = Reply::new(Full::new(text.slice(..layout.body_end)));
    let headers = layout.header_ends.ranges(layout.body_end);
    let values = headers.clone().map(|(_, range)| {
        // Always valid: numbers, and names in which all but printable ASCII is percent-encoded.
        HeaderValue::from_maybe_shared(text.slice(range)).unwrap_or_else(|_| HeaderValue::from_static(""))
    });
    let names = headers.map(|(header, _)| header);
    let headers = reply.headers_mut();
    let content_type = HeaderValue::from_static(layout.content_type());
    let decision = HeaderValue::from_static(layout.kind.as_str());
    *headers = limit_headers::header_map([content_type, decision], names, values);
    if has_marks(answer) {
        add_marks(headers, answer);
    }
    *reply.status_mut() = layout.status;
    if layout.status == StatusCode::FORBIDDEN {
        reply.extensions_mut().insert(BlockedKey);
    }
    reply
}

/// Appends the body of an answer to `out`, and then the values of its headers, so that one allocation is enough.
pub(super) fn write_answer(
    out: &mut String,
    app: &App,
    answer: &Answer,
    waited: Nanos,
    provenance: Provenance,
    more: &str,
) -> AnswerLayout {
    let status = answer_status(answer);
    let limits = answer.limits().len() + answer.candidates().len();
    out.reserve(ANSWER_BYTES + limits * answer_json::LIMIT_BYTES + more.len());
    write_start(out, answer, status);
    answer_json::write_fields(out, answer, waited, provenance);
    out.push_str(more);
    out.push('}');
    let body_end = out.len();
    let header_ends = headers::write_headers(out, answer, app.ratelimit_headers);
    AnswerLayout { status, kind: answer.kind, body_end, header_ends }
}

/// As [`write_answer`], for an end user: the body of a request that passes is empty, and that of a request that does not
/// has only the problem. It names no limit that clients may not see.
pub(super) fn write_client_answer(out: &mut String, app: &App, answer: &Answer) -> AnswerLayout {
    let status = answer_status(answer);
    out.reserve(ANSWER_BYTES);
    if status != StatusCode::OK {
        write_start(out, answer, status);
        // A comma, for the fields that are left out.
        out.pop();
        out.push('}');
    }
    let body_end = out.len();
    let header_ends = headers::write_headers(out, answer, app.ratelimit_headers);
    AnswerLayout { status, kind: answer.kind, body_end, header_ends }
}

fn answer_status(answer: &Answer) -> StatusCode {
    match answer.kind {
        AnswerKind::Denied if is_forbidden(answer) => StatusCode::FORBIDDEN,
        AnswerKind::Denied => StatusCode::TOO_MANY_REQUESTS,
        AnswerKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

/// Writes the start of a body, up to the fields of the answer.
fn write_start(out: &mut String, answer: &Answer, status: StatusCode) {
    match answer.kind {
        AnswerKind::Denied if status == StatusCode::FORBIDDEN => write_forbidden(out, answer),
        AnswerKind::Denied => write_problem(out, answer),
        AnswerKind::Unavailable => write_unavailable(out, answer),
        _ => out.push('{'),
    }
}

/// Whether a reply has headers besides those about limits.
pub(super) fn has_marks(answer: &Answer) -> bool {
    answer.degraded || answer.unreplicated || answer.kind == AnswerKind::Unavailable
}

/// Marks an answer that was made without the shared store, that is not a decision of the limits, or that too few
/// replicas have.
#[cold]
fn add_marks(headers: &mut HeaderMap, answer: &Answer) {
    if answer.degraded {
        headers.insert(DEGRADED_HEADER, HeaderValue::from_static("true"));
    }
    // The header is missing if clients may not see the limit.
    if answer.kind == AnswerKind::Unavailable
        && let Some(seconds) = headers::retry_after_seconds(answer)
    {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if answer.unreplicated {
        headers.insert(UNREPLICATED_HEADER, HeaderValue::from_static("true"));
    }
}

/// Writes the start of the problem for a request that the store did not decide.
#[cold]
fn write_unavailable(out: &mut String, answer: &Answer) {
    out.push_str(ProblemKind::Unavailable.json_start());
    json_writer::write_text(out, &detail(answer));
    out.push(',');
}

/// Writes the start of the problem for a request whose key is blocked.
#[cold]
fn write_forbidden(out: &mut String, answer: &Answer) {
    out.push_str(ProblemKind::Forbidden.json_start());
    json_writer::write_text(out, &detail(answer));
    out.push(',');
}

/// Writes the start of the problem for a denied request: its type, a text for people, and the violated policies.
fn write_problem(out: &mut String, answer: &Answer) {
    out.push_str(ProblemKind::QuotaExceeded.json_start());
    json_writer::write_text(out, &detail(answer));
    out.push_str(r#","violated-policies":"#);
    let denying =
        answer.limits().filter(|limit| limit.kind == AnswerKind::Denied && headers::is_shown(limit));
    json_writer::write_list(out, denying, |out, limit| {
        // As in the headers, so that a client finds it there.
        json_writer::write_text(out, &headers::policy_name(&limit).to_string());
    });
    out.push(',');
}
