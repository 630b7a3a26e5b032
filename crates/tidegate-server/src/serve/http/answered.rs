//! An answer as a reply: its body, its status, and the headers that tell a client of its limits.

use bytes::Bytes;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::rules::{Answer, Asked, Fate};

use super::reply::Reply;
use super::{answer_json, json};
use crate::serve::limit_headers::{self, LimitHeader, PolicyName};
use crate::serve::rounded;

/// What an answer's body takes besides its limits, in bytes, about; and its headers.
const ANSWER_BYTES: usize = 640;

const PROBLEM_TYPE: &[u8] = br#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"#;

/// A reply with what the limits say: 200, or 429 if the request is denied. `more` has fields to add, each after a comma.
pub(super) fn reply(answer: &Answer<'_>, waited: Nanos, more: &[u8]) -> Reply {
    let is_denied = answer.fate == Fate::Denied;
    let limits = answer.limits.len() + answer.candidates.len();
    let mut out = Vec::with_capacity(ANSWER_BYTES + limits * answer_json::LIMIT_BYTES + more.len());
    match is_denied {
        true => write_problem(&mut out, answer),
        false => out.push(b'{'),
    }
    answer_json::write_fields(&mut out, answer, waited);
    out.extend_from_slice(more);
    out.push(b'}');
    let body_end = out.len();
    // The headers' values follow the body, so that all of it is one allocation.
    let mut values: SmallVec<[(LimitHeader, usize); 8]> = SmallVec::new();
    limit_headers::each(answer, |header, value| {
        out.extend_from_slice(value.as_bytes());
        values.push((header, out.len()));
    });
    let out = Bytes::from(out);
    let mut reply = Reply::new(Full::new(out.slice(..body_end)));
    let headers = reply.headers_mut();
    headers.reserve(values.len() + 1);
    let kind = if is_denied { "application/problem+json" } else { "application/json" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let mut start = body_end;
    for (header, end) in values {
        // Numbers, and names with all that is no visible ASCII replaced: always a value.
        if let Ok(value) = HeaderValue::from_maybe_shared(out.slice(start..end)) {
            headers.insert(header_name(header), value);
        }
        start = end;
    }
    if is_denied {
        *reply.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    reply
}

/// What a denial has before the fields of the answer: the problem, for people and by its policies.
fn write_problem(out: &mut Vec<u8>, answer: &Answer<'_>) {
    out.extend_from_slice(PROBLEM_TYPE);
    json::text(out, &detail(answer));
    out.extend_from_slice(br#","violated-policies":"#);
    let denying =
        answer.limits.iter().filter(|limit| limit.fate == Fate::Denied && limit_headers::is_shown(limit));
    json::list(out, denying, |out, limit| json::text(out, &PolicyName::of(limit).to_string()));
    out.push(b',');
}

/// Why it is denied, and when to come again.
fn detail(answer: &Answer<'_>) -> String {
    let Some(decider) = answer.decider() else { return String::new() };
    let policy = PolicyName::of(decider);
    match (decider.asked, answer.retry_after.span()) {
        (Asked::KeyMissing, _) => format!("the request lacks a part of the key of {policy}"),
        (Asked::Yes, None) => format!("{policy} never admits a request of this cost"),
        (Asked::Yes, Some(wait)) => {
            format!("{policy} is exceeded; try again in {} s", rounded::seconds(wait))
        }
    }
}

fn header_name(header: LimitHeader) -> HeaderName {
    macro_rules! name {
        ($header:ident) => {{
            const NAME: HeaderName = HeaderName::from_static(LimitHeader::$header.name());
            NAME
        }};
    }
    match header {
        LimitHeader::RetryAfter => name!(RetryAfter),
        LimitHeader::XRetryAfter => name!(XRetryAfter),
        LimitHeader::Limit => name!(Limit),
        LimitHeader::Remaining => name!(Remaining),
        LimitHeader::Reset => name!(Reset),
        LimitHeader::Policy => name!(Policy),
        LimitHeader::State => name!(State),
    }
}
