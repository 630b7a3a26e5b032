//! `grpc.health.v1.Health`.
//!
//! The server is healthy until it drains. It does not listen before its rules are loaded, so there is no earlier state,
//! unless a setting says that it is not ready before it has reached the shared store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;

use super::calls::Dispatcher;
use super::reflection;
use super::status::{GrpcCode, GrpcStatus, ok_headers};
use super::unsent::ResponseBytes;
use super::wire::{Reader, Value, Writer};
use crate::text;

/// Maximum characters of a service name shown in an error.
const NAME_CHARS_MAX: usize = 64;

/// The service name of envoyproxy/ratelimit, because health probes written for it use that name.
const RATELIMIT: &[u8] = b"ratelimit";

/// The values of `HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ServingStatus {
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

impl ServingStatus {
    fn current(dispatcher: &Dispatcher) -> Self {
        let is_draining = dispatcher.is_draining || dispatcher.shared.app.drain.is_draining();
        if is_draining || lacks_store(dispatcher) { Self::NotServing } else { Self::Serving }
    }

    fn write(self, out: &mut Writer<'_>) {
        out.varint(1, self as u64);
    }
}

/// Answers `Check`.
pub fn check(dispatcher: &mut Dispatcher, message: &[u8]) -> Result<Bytes, GrpcStatus> {
    let service = read_service(message)?;
    if !is_known_service(service) {
        let name = text::printable(service, NAME_CHARS_MAX);
        let message =
            format!("there is no service `{name}` (hint: an empty name asks about the whole server)");
        return Err(GrpcStatus::new(GrpcCode::NotFound, message));
    }
    let health = ServingStatus::current(dispatcher);
    Ok(dispatcher.write_framed(|out| health.write(out)))
}

/// Answers `List`.
pub fn list(dispatcher: &mut Dispatcher) -> Bytes {
    let health = ServingStatus::current(dispatcher);
    dispatcher.write_framed(|out| {
        for service in std::iter::once("").chain(reflection::services()) {
            out.message(1, |entry| {
                entry.text(1, service);
                entry.message(2, |out| health.write(out));
            });
        }
    })
}

/// An open `Watch` call.
pub struct HealthWatch {
    stream: SendStream<ResponseBytes>,
    last_sent: ServingStatus,
    /// Ends when a server that is not ready becomes ready.
    becomes_ready: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl HealthWatch {
    /// Sends the current status.
    pub fn start(
        dispatcher: &mut Dispatcher,
        message: &[u8],
        mut respond: SendResponse<ResponseBytes>,
    ) -> Option<Self> {
        let status = match read_service(message) {
            Ok(service) if is_known_service(service) => ServingStatus::current(dispatcher),
            // The protocol keeps the stream open: an unknown service may appear later.
            Ok(_) => ServingStatus::ServiceUnknown,
            Err(status) => {
                dispatcher.reject(&mut respond, &status);
                return None;
            }
        };
        let mut stream = respond.send_response(ok_headers(), false).ok()?;
        let message = dispatcher.write_framed(|out| status.write(out));
        stream.send_data(dispatcher.memory.unsent.count(message), false).ok()?;
        dispatcher.set_has_written();
        let becomes_ready = (status == ServingStatus::NotServing && lacks_store(dispatcher)).then(|| {
            let app = Arc::clone(&dispatcher.shared.app);
            Box::pin(async move {
                if let Some(fleet) = &app.fleet {
                    fleet.wait_ready().await;
                }
            }) as _
        });
        Some(Self { stream, last_sent: status, becomes_ready })
    }

    /// Sends a change. Ready when the call has ended.
    pub fn poll(&mut self, dispatcher: &mut Dispatcher, context: &mut Context<'_>) -> Poll<()> {
        if self.stream.poll_reset(context).is_ready() {
            return Poll::Ready(());
        }
        if !dispatcher.is_draining {
            let is_ready =
                self.becomes_ready.as_mut().is_some_and(|ready| ready.as_mut().poll(context).is_ready());
            if is_ready {
                self.becomes_ready = None;
                self.last_sent = ServingStatus::Serving;
                let message = dispatcher.write_framed(|out| ServingStatus::Serving.write(out));
                let _ = self.stream.send_data(dispatcher.memory.unsent.count(message), false);
                dispatcher.set_has_written();
            }
            return Poll::Pending;
        }
        // An open stream would keep the server from stopping.
        if self.last_sent == ServingStatus::Serving {
            let message = dispatcher.write_framed(|out| ServingStatus::NotServing.write(out));
            let _ = self.stream.send_data(dispatcher.memory.unsent.count(message), false);
        }
        let status = GrpcStatus::new(GrpcCode::Unavailable, "the server is shutting down");
        let _ = self.stream.send_trailers(status.trailers());
        dispatcher.set_has_written();
        Poll::Ready(())
    }
}

/// Whether the server is not ready because it has not reached the shared store yet.
fn lacks_store(dispatcher: &Dispatcher) -> bool {
    dispatcher.shared.app.fleet.as_ref().is_some_and(|fleet| !fleet.is_ready())
}

/// The whole server (an empty name) and its services.
fn is_known_service(service: &[u8]) -> bool {
    service.is_empty()
        || service == RATELIMIT
        || reflection::services().any(|name| name.as_bytes() == service)
}

fn read_service(message: &[u8]) -> Result<&[u8], GrpcStatus> {
    let mut service: &[u8] = b"";
    let mut fields = Reader::new(message);
    let malformed = |error| {
        GrpcStatus::new(GrpcCode::InvalidArgument, format!("this is not a HealthCheckRequest: {error}"))
    };
    while let Some(field) = fields.next().map_err(malformed)? {
        if let (1, Value::Bytes { bytes, .. }) = (field.number, field.value) {
            service = bytes;
        }
    }
    Ok(service)
}
