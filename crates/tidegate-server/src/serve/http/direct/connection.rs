//! A connection whose requests are answered directly, until hyper has to take over.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate::rules::{AnswerKind, Request};
use tidegate::{DecideOutput, EngineError};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, ReadBuf};

use super::date::with_date;
use super::reply::{write_answer, write_reply};
use super::request::{Arrived, HEADERS_MAX, REQUEST_BYTES_MAX, read_request};
use crate::json::{self, SingleOrBatch};
use crate::serve::http::allowed_hosts::AllowedHosts;
use crate::serve::http::answer_json::Provenance;
use crate::serve::http::connection_timer::ConnectionTimer;
use crate::serve::http::forward_auth::{self, DenyStatus, ForwardAuth, ParsedLines};
use crate::serve::http::tracker::{ConnectionState, ConnectionTracker};
use crate::serve::http::{answer_reply, error_reply, reply};
use crate::serve::listen::Stream;
use crate::serve::poll_on_wake::PollOnWake;
use crate::serve::settings::Bounds;
use crate::serve::{App, Protocol, SharedInstant};

/// Replies are written when they have at least this size, before further requests are answered.
const OUTPUT_BYTES: usize = 8 << 10;

/// What direct answers need.
#[derive(Clone, Copy)]
pub(in crate::serve::http) struct DirectChecks<'a> {
    pub app: &'a App,
    pub hosts: &'a AllowedHosts,
    pub bounds: &'a Bounds,
    pub forward_auth: Option<&'a ForwardAuth>,
    /// The address of the client.
    pub peer: Option<IpAddr>,
}

/// A connection for hyper, with input that was read and not answered.
pub(in crate::serve::http) struct Unread {
    pub stream: Stream,
    pub input: Bytes,
}

impl Unread {
    /// Reads the input first, and then from the stream.
    pub fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.input.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let bytes = self.input.len().min(buffer.remaining());
        buffer.put_slice(&self.input.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

struct DirectConnection<'a> {
    checks: DirectChecks<'a>,
    tracker: &'a ConnectionTracker<'a>,
    stream: Stream,
    input: Vec<u8>,
    /// Length of the answered part of `input`.
    answered: usize,
    awaited: Awaited,
    output: Vec<u8>,
    /// Length of the written part of `output`.
    written: usize,
    /// The text of the last answer. Kept for its memory.
    text: String,
    phase: Phase,
}

/// What the input is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The next request.
    Request,
    /// The rest of a head.
    RestOfHead,
    /// The rest of a request of this size, whose head has arrived.
    RestOfBody { request_bytes: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Answering,
    /// hyper takes over when all replies are written.
    HandingOver,
}

/// How a connection ends here.
enum DirectEnd {
    HandOver,
    /// The client is gone, or too late.
    Close,
}

/// What became of a request.
#[derive(Clone, Copy)]
enum CheckStep {
    Answered,
    /// Nothing was charged.
    HandOver,
}

/// Answers the requests of a connection until one of them is for hyper. None if the connection ends before.
pub(in crate::serve::http) async fn serve(
    checks: DirectChecks<'_>,
    stream: Stream,
    tracker: &ConnectionTracker<'_>,
    timer: &mut ConnectionTimer<'_>,
) -> Option<Unread> {
    let mut direct = DirectConnection::new(checks, stream, tracker);
    let mut drain = PollOnWake::new(Box::pin(checks.app.drain.wait()));
    let end = poll_fn(|context| {
        loop {
            if let Poll::Ready(end) = direct.poll(context) {
                return Poll::Ready(end);
            }
            if direct.phase == Phase::Answering && drain.poll(context).is_ready() {
                direct.phase = Phase::HandingOver;
                continue;
            }
            return timer.poll(context, tracker).map(|()| direct.end_by_timeout());
        }
    });
    match end.await {
        DirectEnd::HandOver => Some(direct.into_unread()),
        DirectEnd::Close => None,
    }
}

impl<'a> DirectConnection<'a> {
    fn new(checks: DirectChecks<'a>, stream: Stream, tracker: &'a ConnectionTracker<'a>) -> Self {
        Self {
            checks,
            tracker,
            stream,
            input: Vec::new(),
            answered: 0,
            awaited: Awaited::Request,
            output: Vec::new(),
            written: 0,
            text: String::new(),
            phase: Phase::Answering,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<DirectEnd> {
        loop {
            if ready!(self.poll_write(context)).is_err() {
                return Poll::Ready(DirectEnd::Close);
            }
            if self.phase == Phase::HandingOver {
                return Poll::Ready(DirectEnd::HandOver);
            }
            self.answer_arrived();
            if !self.output.is_empty() || self.phase == Phase::HandingOver {
                continue;
            }
            match ready!(self.poll_read(context)) {
                Ok(1..) => {}
                // hyper reads the end once more.
                Ok(0) => self.phase = Phase::HandingOver,
                Err(_) => return Poll::Ready(DirectEnd::Close),
            }
        }
    }

    /// Answers every whole request that has arrived, up to the first that is for hyper.
    fn answer_arrived(&mut self) {
        let before = self.answered;
        let mut instant = SharedInstant::default();
        while self.answered < self.input.len() && self.output.len() < OUTPUT_BYTES {
            let rest = &self.input[self.answered..];
            if let Awaited::RestOfBody { request_bytes } = self.awaited
                && rest.len() < request_bytes
            {
                break;
            }
            let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            match (read_request(rest, &mut headers, &self.checks), self.awaited) {
                (Arrived::Check { body, request_bytes }, _) => {
                    let step = self.checks.answer(body, &mut instant, &mut self.text, &mut self.output);
                    self.end_step(step, request_bytes);
                }
                (Arrived::Authorize { headers, deny_status, request_bytes }, _) => {
                    let headers = ParsedLines(headers);
                    let step = self.checks.authorize(
                        &headers,
                        deny_status,
                        &mut instant,
                        &mut self.text,
                        &mut self.output,
                    );
                    self.end_step(step, request_bytes);
                }
                (Arrived::PartOfBody { request_bytes }, _) => {
                    self.awaited = Awaited::RestOfBody { request_bytes };
                    break;
                }
                (Arrived::PartOfHead, Awaited::Request) => {
                    self.awaited = Awaited::RestOfHead;
                    break;
                }
                // A head that comes in many parts would be parsed from its start each time. hyper does not do that.
                (Arrived::PartOfHead | Arrived::Other, _) => self.phase = Phase::HandingOver,
            }
            if self.phase == Phase::HandingOver {
                break;
            }
        }
        self.track(before);
    }

    fn end_step(&mut self, step: CheckStep, request_bytes: usize) {
        match step {
            CheckStep::Answered => self.answered += request_bytes,
            CheckStep::HandOver => self.phase = Phase::HandingOver,
        }
        self.awaited = Awaited::Request;
    }

    /// Tells the tracker what the connection is doing now. `before` was answered before.
    fn track(&self, before: usize) {
        let has_rest = self.answered < self.input.len();
        let state = if has_rest { ConnectionState::Head } else { ConnectionState::Idle };
        // The time of a request starts at its first byte, so a part of it that is still the same changes nothing.
        if self.answered > before || !self.tracker.is_state(state) {
            self.tracker.enter(state);
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.drop_answered();
        self.input.reserve_exact(REQUEST_BYTES_MAX - self.input.len());
        pin!(self.stream.read_buf(&mut self.input)).poll(context)
    }

    fn drop_answered(&mut self) {
        if self.answered == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..self.answered);
        }
        self.answered = 0;
    }

    /// Ready when all replies are written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.output.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.output[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.output.clear();
        self.output.shrink_to(2 * OUTPUT_BYTES);
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// hyper replies to a request whose body is late.
    fn end_by_timeout(&self) -> DirectEnd {
        match self.awaited {
            Awaited::RestOfBody { .. } if self.output.is_empty() => DirectEnd::HandOver,
            _ => DirectEnd::Close,
        }
    }

    fn into_unread(self) -> Unread {
        Unread { stream: self.stream, input: Bytes::copy_from_slice(&self.input[self.answered..]) }
    }
}

impl DirectChecks<'_> {
    /// Answers a request with this body. `text` is memory for it.
    fn answer(
        &self,
        body: &[u8],
        instant: &mut SharedInstant,
        text: &mut String,
        output: &mut Vec<u8>,
    ) -> CheckStep {
        let Ok(SingleOrBatch::Single(json)) = json::read_single_or_batch(body) else {
            return CheckStep::HandOver;
        };
        // The last reply of a drain closes the connection.
        if self.app.drain.is_draining() {
            return CheckStep::HandOver;
        }
        let entries = json.entry_refs();
        let descriptors = entries.descriptors();
        let request = Request { domain: json.domain(), descriptors: &descriptors };
        let now = instant.now(self.app);
        let answered = self.app.check_at_once(Protocol::Http, &request, now, |decided| {
            with_date(now, |date| self.write(decided, text, output, date));
        });
        if answered.is_some() { CheckStep::Answered } else { CheckStep::HandOver }
    }

    /// Answers a proxy that sent these headers. `text` is memory for it.
    fn authorize(
        &self,
        headers: &ParsedLines<'_, '_>,
        deny_status: DenyStatus,
        instant: &mut SharedInstant,
        text: &mut String,
        output: &mut Vec<u8>,
    ) -> CheckStep {
        let Some(forward_auth) = self.forward_auth.filter(|_| !self.app.drain.is_draining()) else {
            return CheckStep::HandOver;
        };
        let now = instant.now(self.app);
        let answered = forward_auth.authorize_at_once(self.app, headers, self.peer, now, |decided| {
            with_date(now, |date| match decided {
                Ok(DecideOutput { answer, .. })
                    if answer.kind == AnswerKind::Allowed && !answer_reply::has_marks(answer) =>
                {
                    text.clear();
                    let layout = answer_reply::write_client_answer(text, self.app, answer);
                    write_answer(output, text, &layout, date);
                }
                decided => {
                    let mut reply = forward_auth::decided_reply(self.app, decided);
                    deny_status.apply(self.app, &mut reply);
                    reply::count_rejection(self.app, Protocol::Http, &reply);
                    write_reply(output, reply, date);
                }
            });
        });
        if answered.is_some() { CheckStep::Answered } else { CheckStep::HandOver }
    }

    fn write(
        &self,
        decided: Result<&DecideOutput, &EngineError>,
        text: &mut String,
        output: &mut Vec<u8>,
        date: &str,
    ) {
        let app = self.app;
        match decided {
            Ok(DecideOutput { answer, waited, .. }) if answer_reply::has_marks(answer) => {
                write_reply(
                    output,
                    answer_reply::answer_reply(app, answer, *waited, Provenance::Hidden, ""),
                    date,
                );
            }
            Ok(DecideOutput { answer, waited, .. }) => {
                text.clear();
                let layout = answer_reply::write_answer(text, app, answer, *waited, Provenance::Hidden, "");
                write_answer(output, text, &layout, date);
            }
            Err(error) => {
                let error_reply = error_reply::engine_error_reply(error);
                reply::count_rejection(app, Protocol::Http, &error_reply);
                write_reply(output, error_reply, date);
            }
        }
    }
}
