//! A client that asks what can be called.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};

use super::{file_named, file_with, services, with_dependencies};
use crate::serve::grpc::calls::{Deadline, Desk};
use crate::serve::grpc::framing::Messages;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus, ok_head, ok_trailers};
use crate::serve::grpc::wire::{Reader, Value, WireError, Writer};
use crate::shown;

/// The longest question, in bytes.
const QUESTION_BYTES_MAX: usize = 16 << 10;
/// How much of a name from outside a message shows.
const NAME_CHARS_MAX: usize = 200;

/// A client that asks. The next question is read when the answer to the last one is on its way.
pub struct Reflecting {
    body: RecvStream,
    stream: SendStream<Bytes>,
    questions: Messages,
    /// What there was no room for at the client.
    answer: Bytes,
    is_asked_out: bool,
    deadline: Deadline,
}

/// What is asked.
enum Question<'q> {
    FileNamed(&'q [u8]),
    FileWith(&'q [u8]),
    Services,
    /// Something that nothing here has.
    Extensions,
    Nothing,
}

impl Reflecting {
    /// It has not asked anything yet.
    pub fn begin(desk: &mut Desk, body: RecvStream, mut respond: SendResponse<Bytes>) -> Option<Self> {
        let stream = respond.send_response(ok_head(), false).ok()?;
        desk.has_written();
        Some(Self {
            body,
            stream,
            questions: Messages::new(QUESTION_BYTES_MAX),
            answer: Bytes::new(),
            is_asked_out: false,
            deadline: Deadline::after(desk.shared.bounds.idle_timeout),
        })
    }

    /// How much of questions and answers it keeps.
    pub fn kept_bytes(&self) -> usize {
        self.questions.kept_bytes() + self.answer.len()
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Desk, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline.poll(context).is_ready() || desk.is_draining {
            let status = GrpcStatus::new(GrpcCode::Unavailable, "the stream has been open for long enough");
            return self.end(desk, Err(status));
        }
        loop {
            if !self.answer.is_empty() {
                match self.send_some(desk, context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            match self.questions.next() {
                Ok(Some(question)) => self.answer = desk.framed(|out| answer(out, &question)),
                Ok(None) if self.is_asked_out => return self.end(desk, Ok(())),
                Ok(None) => match self.body.poll_data(context) {
                    Poll::Ready(Some(Ok(bytes))) => {
                        let _ = self.body.flow_control().release_capacity(bytes.len());
                        if let Err(full) = desk.check_room(self.kept_bytes() + bytes.len()) {
                            return self.reject(desk, full);
                        }
                        self.questions.push(&bytes);
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(()),
                    Poll::Ready(None) => self.is_asked_out = true,
                    Poll::Pending => return Poll::Pending,
                },
                Err(status) => return self.reject(desk, status),
            }
        }
    }

    /// Sends as much as the client has room for.
    fn send_some(&mut self, desk: &mut Desk, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        self.stream.reserve_capacity(self.answer.len());
        if self.stream.capacity() == 0 {
            match self.stream.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => return Poll::Ready(Err(h2::Reason::CANCEL.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        let room = self.stream.capacity().min(self.answer.len());
        let some = self.answer.split_to(room);
        desk.has_written();
        Poll::Ready(self.stream.send_data(some, false))
    }

    fn reject(&mut self, desk: &mut Desk, status: GrpcStatus) -> Poll<()> {
        desk.shared.count_rejected(&status);
        self.end(desk, Err(status))
    }

    fn end(&mut self, desk: &mut Desk, how: Result<(), GrpcStatus>) -> Poll<()> {
        let trailers = how.map_or_else(|status| status.trailers(), |()| ok_trailers());
        // It fails if the client is gone.
        let _ = self.stream.send_trailers(trailers);
        desk.has_written();
        Poll::Ready(())
    }
}

/// Writes the answer to a question.
fn answer(out: &mut Writer<'_>, message: &Bytes) {
    out.bytes_or_empty(2, message.chunk());
    match read(message) {
        Ok(Question::Services) => out.message(6, |list| {
            services().for_each(|name| list.message(1, |service| service.text(1, name)));
        }),
        Ok(Question::FileNamed(name)) => {
            let file = std::str::from_utf8(name).ok().and_then(file_named);
            write_file(out, file, "file", name);
        }
        Ok(Question::FileWith(symbol)) => {
            let file = std::str::from_utf8(symbol).ok().and_then(file_with);
            write_file(out, file, "symbol", symbol);
        }
        Ok(Question::Extensions) => fail(out, GrpcCode::NotFound, "nothing here has extensions"),
        Ok(Question::Nothing) => fail(out, GrpcCode::InvalidArgument, "nothing is asked"),
        Err(error) => {
            let message = format!("this is not a ServerReflectionRequest: {error}");
            fail(out, GrpcCode::InvalidArgument, &message);
        }
    }
}

fn write_file(out: &mut Writer<'_>, file: Option<&'static super::File>, what: &str, name: &[u8]) {
    match file {
        Some(file) => out.message(4, |list| {
            with_dependencies(file).iter().for_each(|file| list.bytes_or_empty(1, &file.encoded()));
        }),
        None => {
            let name = shown::text(name, NAME_CHARS_MAX);
            fail(out, GrpcCode::NotFound, &format!("there is no {what} `{name}`"));
        }
    }
}

fn fail(out: &mut Writer<'_>, code: GrpcCode, message: &str) {
    out.message(7, |error| {
        error.varint(1, code as u64);
        error.text(2, message);
    });
}

fn read(message: &[u8]) -> Result<Question<'_>, WireError> {
    let mut question = Question::Nothing;
    let mut fields = Reader::new(message);
    while let Some(field) = fields.next()? {
        question = match (field.number, field.value) {
            (3, Value::Bytes { bytes, .. }) => Question::FileNamed(bytes),
            (4, Value::Bytes { bytes, .. }) => Question::FileWith(bytes),
            (5 | 6, Value::Bytes { .. }) => Question::Extensions,
            (7, Value::Bytes { .. }) => Question::Services,
            _ => question,
        };
    }
    Ok(question)
}
