//! `grpc.health.v1.Health`: whether the server is well.
//!
//! It is, until it is about to stop: it does not listen before its rules are in force.

use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;

use super::calls::Dispatcher;
use super::reflection;
use super::status::{GrpcCode, GrpcStatus, ok_headers};
use super::wire::{Reader, Value, Writer};
use crate::text;

/// How much of a name from outside a message shows.
const NAME_CHARS_MAX: usize = 64;

/// What envoyproxy/ratelimit calls itself: probes written for it ask for that.
const RATELIMIT: &[u8] = b"ratelimit";

/// By the number it has in `HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ServingStatus {
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl ServingStatus {
    fn current(desk: &Dispatcher) -> Self {
        if desk.is_draining || desk.shared.app.drain.is_draining() { Self::NotServing } else { Self::Serving }
    }

    fn write(self, out: &mut Writer<'_>) {
        out.varint(1, self as u64);
    }
}

/// Whether a service is well.
pub fn check(desk: &mut Dispatcher, message: &[u8]) -> Result<Bytes, GrpcStatus> {
    let service = read_service(message)?;
    if !is_known_service(service) {
        let name = text::printable(service, NAME_CHARS_MAX);
        let message =
            format!("there is no service `{name}` (hint: none at all asks for the server as a whole)");
        return Err(GrpcStatus::new(GrpcCode::NotFound, message));
    }
    let health = ServingStatus::current(desk);
    Ok(desk.write_framed(|out| health.write(out)))
}

/// Whether each service is well.
pub fn list(desk: &mut Dispatcher) -> Bytes {
    let health = ServingStatus::current(desk);
    desk.write_framed(|out| {
        for service in std::iter::once("").chain(reflection::services()) {
            out.message(1, |entry| {
                entry.text(1, service);
                entry.message(2, |out| health.write(out));
            });
        }
    })
}

/// Somebody who wants to know whenever it changes.
pub struct HealthWatch {
    stream: SendStream<Bytes>,
    last_sent: ServingStatus,
}

impl HealthWatch {
    /// Says how it is now.
    pub fn start(desk: &mut Dispatcher, message: &[u8], mut respond: SendResponse<Bytes>) -> Option<Self> {
        let said = match read_service(message) {
            Ok(service) if is_known_service(service) => ServingStatus::current(desk),
            // It might come to be, as far as the protocol knows.
            Ok(_) => ServingStatus::ServiceUnknown,
            Err(status) => {
                desk.reject(&mut respond, &status);
                return None;
            }
        };
        let mut stream = respond.send_response(ok_headers(), false).ok()?;
        let message = desk.write_framed(|out| said.write(out));
        stream.send_data(message, false).ok()?;
        desk.set_has_written();
        Some(Self { stream, last_sent: said })
    }

    /// Goes on; ready when it is over.
    pub fn poll(&mut self, desk: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if self.stream.poll_reset(context).is_ready() {
            return Poll::Ready(());
        }
        if !desk.is_draining {
            return Poll::Pending;
        }
        // A stream that stayed open would keep the server from stopping.
        if self.last_sent == ServingStatus::Serving {
            let message = desk.write_framed(|out| ServingStatus::NotServing.write(out));
            let _ = self.stream.send_data(message, false);
        }
        let status = GrpcStatus::new(GrpcCode::Unavailable, "the server is about to stop");
        let _ = self.stream.send_trailers(status.trailers());
        desk.set_has_written();
        Poll::Ready(())
    }
}

/// What may be asked for: the server as a whole, and its services.
fn is_known_service(service: &[u8]) -> bool {
    service.is_empty()
        || service == RATELIMIT
        || reflection::services().any(|known| known.as_bytes() == service)
}

fn read_service(message: &[u8]) -> Result<&[u8], GrpcStatus> {
    let mut service: &[u8] = b"";
    let mut fields = Reader::new(message);
    let broken = |error| {
        GrpcStatus::new(GrpcCode::InvalidArgument, format!("this is not a HealthCheckRequest: {error}"))
    };
    while let Some(field) = fields.next().map_err(broken)? {
        if let (1, Value::Bytes { bytes, .. }) = (field.number, field.value) {
            service = bytes;
        }
    }
    Ok(service)
}
