//! A client that asks what can be called.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};

use super::{file_by_name, file_by_symbol, services, with_dependencies};
use crate::serve::grpc::calls::{Deadline, Dispatcher};
use crate::serve::grpc::framing::MessageReader;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus, ok_headers, ok_trailers};
use crate::serve::grpc::wire::{Reader, Value, WireError, Writer};
use crate::text;

/// The longest question, in bytes.
const QUESTION_BYTES_MAX: usize = 16 << 10;
/// How much of a name from outside a message shows.
const NAME_CHARS_MAX: usize = 200;

/// A client that asks. The next question is read when the answer to the last one is on its way.
pub struct ReflectionStream {
    body: RecvStream,
    stream: SendStream<Bytes>,
    messages: MessageReader,
    /// What there was no room for at the client.
    unsent: Bytes,
    has_request_ended: bool,
    deadline: Deadline,
}

/// What is asked.
enum ReflectionRequest<'q> {
    FileByName(&'q [u8]),
    FileContainingSymbol(&'q [u8]),
    Services,
    /// Something that nothing here has.
    Extensions,
    Empty,
}

impl ReflectionStream {
    /// It has not asked anything yet.
    pub fn start(desk: &mut Dispatcher, body: RecvStream, mut respond: SendResponse<Bytes>) -> Option<Self> {
        let stream = respond.send_response(ok_headers(), false).ok()?;
        desk.set_has_written();
        Some(Self {
            body,
            stream,
            messages: MessageReader::new(QUESTION_BYTES_MAX),
            unsent: Bytes::new(),
            has_request_ended: false,
            deadline: Deadline::after(desk.shared.bounds.idle_timeout),
        })
    }

    /// How much of questions and answers it keeps.
    pub fn kept_bytes(&self) -> usize {
        self.messages.kept_bytes() + self.unsent.len()
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline.poll(context).is_ready() || desk.is_draining {
            let status = GrpcStatus::new(GrpcCode::Unavailable, "the stream has been open for long enough");
            return self.end(desk, Err(status));
        }
        loop {
            if !self.unsent.is_empty() {
                match self.send_some(desk, context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            match self.messages.next() {
                Ok(Some(question)) => self.unsent = desk.write_framed(|out| write_answer(out, &question)),
                Ok(None) if self.has_request_ended => return self.end(desk, Ok(())),
                Ok(None) => match self.body.poll_data(context) {
                    Poll::Ready(Some(Ok(bytes))) => {
                        let _ = self.body.flow_control().release_capacity(bytes.len());
                        if let Err(full) = desk.check_room(self.kept_bytes() + bytes.len()) {
                            return self.reject(desk, full);
                        }
                        self.messages.push(&bytes);
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(()),
                    Poll::Ready(None) => self.has_request_ended = true,
                    Poll::Pending => return Poll::Pending,
                },
                Err(status) => return self.reject(desk, status),
            }
        }
    }

    /// Sends as much as the client has room for.
    fn send_some(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        self.stream.reserve_capacity(self.unsent.len());
        if self.stream.capacity() == 0 {
            match self.stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Err(h2::Reason::CANCEL.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let room = self.stream.capacity().min(self.unsent.len());
        let some = self.unsent.split_to(room);
        desk.set_has_written();
        Poll::Ready(self.stream.send_data(some, false))
    }

    fn reject(&mut self, desk: &mut Dispatcher, status: GrpcStatus) -> Poll<()> {
        desk.shared.count_rejected(&status);
        self.end(desk, Err(status))
    }

    fn end(&mut self, desk: &mut Dispatcher, how: Result<(), GrpcStatus>) -> Poll<()> {
        let trailers = how.map_or_else(|status| status.trailers(), |()| ok_trailers());
        // It fails if the client is gone.
        let _ = self.stream.send_trailers(trailers);
        desk.set_has_written();
        Poll::Ready(())
    }
}

/// Writes the answer to a question.
fn write_answer(out: &mut Writer<'_>, message: &Bytes) {
    out.bytes_or_empty(2, message.chunk());
    match read_request(message) {
        Ok(ReflectionRequest::Services) => out.message(6, |list| {
            services().for_each(|name| list.message(1, |service| service.text(1, name)));
        }),
        Ok(ReflectionRequest::FileByName(name)) => {
            let file = std::str::from_utf8(name).ok().and_then(file_by_name);
            write_file(out, file, "file", name);
        }
        Ok(ReflectionRequest::FileContainingSymbol(symbol)) => {
            let file = std::str::from_utf8(symbol).ok().and_then(file_by_symbol);
            write_file(out, file, "symbol", symbol);
        }
        Ok(ReflectionRequest::Extensions) => write_error(out, GrpcCode::NotFound, "nothing here has extensions"),
        Ok(ReflectionRequest::Empty) => write_error(out, GrpcCode::InvalidArgument, "nothing is asked"),
        Err(error) => {
            let message = format!("this is not a ServerReflectionRequest: {error}");
            write_error(out, GrpcCode::InvalidArgument, &message);
        }
    }
}

fn write_file(out: &mut Writer<'_>, file: Option<&'static super::FileSchema>, what: &str, name: &[u8]) {
    match file {
        Some(file) => out.message(4, |list| {
            with_dependencies(file).iter().for_each(|file| list.bytes_or_empty(1, &file.encode()));
        }),
        None => {
            let name = text::printable(name, NAME_CHARS_MAX);
            write_error(out, GrpcCode::NotFound, &format!("there is no {what} `{name}`"));
        }
    }
}

fn write_error(out: &mut Writer<'_>, code: GrpcCode, message: &str) {
    out.message(7, |error| {
        error.varint(1, code as u64);
        error.text(2, message);
    });
}

fn read_request(message: &[u8]) -> Result<ReflectionRequest<'_>, WireError> {
    let mut question = ReflectionRequest::Empty;
    let mut fields = Reader::new(message);
    while let Some(field) = fields.next()? {
        question = match (field.number, field.value) {
            (3, Value::Bytes { bytes, .. }) => ReflectionRequest::FileByName(bytes),
            (4, Value::Bytes { bytes, .. }) => ReflectionRequest::FileContainingSymbol(bytes),
            (5 | 6, Value::Bytes { .. }) => ReflectionRequest::Extensions,
            (7, Value::Bytes { .. }) => ReflectionRequest::Services,
            _ => question,
        };
    }
    Ok(question)
}
