//! The reflection stream of one client.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};

use super::{file_by_name, file_by_symbol, services, with_dependencies};
use crate::serve::grpc::calls::{Deadline, Dispatcher};
use crate::serve::grpc::framing::MessageReader;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus, ok_headers, ok_trailers};
use crate::serve::grpc::unsent::ResponseBytes;
use crate::serve::grpc::wire::{Reader, Value, WireError, Writer};
use crate::text;

/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Maximum characters of a name shown in an error.
const NAME_CHARS_MAX: usize = 200;

/// A reflection stream. It reads the next request only after the response to the last one was sent.
pub struct ReflectionStream {
    body: RecvStream,
    stream: SendStream<ResponseBytes>,
    messages: MessageReader,
    /// The part of the response that did not fit into the client's flow control window.
    unsent: Bytes,
    has_request_ended: bool,
    deadline: Deadline,
}

enum ReflectionRequest<'q> {
    FileByName(&'q [u8]),
    FileContainingSymbol(&'q [u8]),
    Services,
    /// Extensions: no message here has any.
    Extensions,
    Empty,
}

impl ReflectionStream {
    /// Opens the stream.
    pub fn start(
        dispatcher: &mut Dispatcher,
        body: RecvStream,
        mut respond: SendResponse<ResponseBytes>,
    ) -> Option<Self> {
        let stream = respond.send_response(ok_headers(), false).ok()?;
        dispatcher.set_has_written();
        Some(Self {
            body,
            stream,
            messages: MessageReader::new(REQUEST_BYTES_MAX),
            unsent: Bytes::new(),
            has_request_ended: false,
            deadline: Deadline::after(dispatcher.shared.bounds.idle_timeout),
        })
    }

    /// Bytes of requests and responses that are buffered.
    pub fn kept_bytes(&self) -> usize {
        self.messages.kept_bytes() + self.unsent.len()
    }

    /// Polls the stream. Ready when it has ended.
    pub fn poll(&mut self, dispatcher: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline.poll(context).is_ready() || dispatcher.is_draining {
            let status = GrpcStatus::new(GrpcCode::Unavailable, "stream timeout or server shutdown");
            return self.end(dispatcher, Err(status));
        }
        loop {
            if !self.unsent.is_empty() {
                match self.send_some(dispatcher, context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            match self.messages.next() {
                Ok(Some(request)) => {
                    self.unsent = dispatcher.write_framed(|out| write_response(out, &request));
                    if let Err(status) = dispatcher.check_room(self.kept_bytes()) {
                        return self.reject(dispatcher, status);
                    }
                }
                Ok(None) if self.has_request_ended => return self.end(dispatcher, Ok(())),
                Ok(None) => match self.body.poll_data(context) {
                    Poll::Ready(Some(Ok(bytes))) => {
                        let _ = self.body.flow_control().release_capacity(bytes.len());
                        if let Err(status) = dispatcher.check_room(self.kept_bytes() + bytes.len()) {
                            return self.reject(dispatcher, status);
                        }
                        self.messages.push(&bytes);
                    }
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(()),
                    Poll::Ready(None) => self.has_request_ended = true,
                    Poll::Pending => return Poll::Pending,
                },
                Err(status) => return self.reject(dispatcher, status),
            }
        }
    }

    /// Sends as much as the flow control window allows.
    fn send_some(
        &mut self,
        dispatcher: &mut Dispatcher,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), h2::Error>> {
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
        let bytes = self.unsent.split_to(room);
        dispatcher.set_has_written();
        Poll::Ready(self.stream.send_data(dispatcher.memory.unsent.count(bytes), false))
    }

    fn reject(&mut self, dispatcher: &mut Dispatcher, status: GrpcStatus) -> Poll<()> {
        dispatcher.shared.count_rejected(&status);
        self.end(dispatcher, Err(status))
    }

    fn end(&mut self, dispatcher: &mut Dispatcher, result: Result<(), GrpcStatus>) -> Poll<()> {
        let trailers = result.map_or_else(|status| status.trailers(), |()| ok_trailers());
        // It fails if the client is gone.
        let _ = self.stream.send_trailers(trailers);
        dispatcher.set_has_written();
        Poll::Ready(())
    }
}

/// Writes the response to a request.
fn write_response(out: &mut Writer<'_>, message: &Bytes) {
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
        Ok(ReflectionRequest::Extensions) => {
            write_error(out, GrpcCode::NotFound, "no message has extensions");
        }
        Ok(ReflectionRequest::Empty) => write_error(out, GrpcCode::InvalidArgument, "the request is empty"),
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
    let mut request = ReflectionRequest::Empty;
    let mut fields = Reader::new(message);
    while let Some(field) = fields.next()? {
        request = match (field.number, field.value) {
            (3, Value::Bytes { bytes, .. }) => ReflectionRequest::FileByName(bytes),
            (4, Value::Bytes { bytes, .. }) => ReflectionRequest::FileContainingSymbol(bytes),
            (5 | 6, Value::Bytes { .. }) => ReflectionRequest::Extensions,
            (7, Value::Bytes { .. }) => ReflectionRequest::Services,
            _ => request,
        };
    }
    Ok(request)
}
