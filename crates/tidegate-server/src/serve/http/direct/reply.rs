//! Writes replies as hyper does: the same headers in the same order.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame};
use tidegate::rules::AnswerKind;

use crate::serve::http::answer_reply::AnswerLayout;
use crate::serve::http::reply::Reply;
use crate::serve::rls;

/// Typical size of the head of a reply, in bytes, without the values of limits.
const HEAD_BYTES: usize = 384;

const ALLOWED_START: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-tidegate-decision: allowed\r\n";
const DENIED_START: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nx-tidegate-decision: denied\r\n";

/// Writes an answer: `text` has its body and the values of its headers, as `layout` says.
pub(super) fn write_answer(out: &mut Vec<u8>, text: &str, layout: &AnswerLayout, date: &str) {
    out.reserve(HEAD_BYTES + text.len());
    // Written at once, because nearly all answers are one of these two.
    match (layout.kind, layout.status) {
        (AnswerKind::Allowed, _) => out.extend_from_slice(ALLOWED_START),
        (AnswerKind::Denied, StatusCode::TOO_MANY_REQUESTS) => out.extend_from_slice(DENIED_START),
        (kind, status) => {
            write_status(out, status);
            write_header(out, "content-type", layout.content_type().as_bytes());
            write_header(out, rls::DECISION_HEADER, kind.as_str().as_bytes());
        }
    }
    for (header, range) in layout.header_ends.ranges(layout.body_end) {
        write_header(out, header.name(), &text.as_bytes()[range]);
    }
    write_body(out, &text.as_bytes()[..layout.body_end], date);
}

/// Writes any other reply.
#[cold]
pub(super) fn write_reply(out: &mut Vec<u8>, reply: Reply, date: &str) {
    write_status(out, reply.status());
    for (name, value) in reply.headers() {
        write_header(out, name.as_str(), value.as_bytes());
    }
    write_body(out, &whole_body(reply), date);
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn write_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes the last two headers, and the body.
fn write_body(out: &mut Vec<u8>, body: &[u8], date: &str) {
    write_header(out, "content-length", itoa::Buffer::new().format(body.len()).as_bytes());
    write_header(out, "date", date.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

/// The body of a reply, which is always ready.
fn whole_body(reply: Reply) -> Bytes {
    let frame = Pin::new(&mut reply.into_body()).poll_frame(&mut Context::from_waker(Waker::noop()));
    match frame.map(|frame| frame.map(|frame| frame.map(Frame::into_data))) {
        Poll::Ready(Some(Ok(Ok(bytes)))) => bytes,
        _ => Bytes::new(),
    }
}
