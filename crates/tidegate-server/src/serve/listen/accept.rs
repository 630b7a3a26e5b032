//! A bound socket and its connections, up to a maximum number.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connections_per_ip::{ConnectionsPerIp, IpPermit};
use super::socket::Socket;
use super::{Address, BindError, Stream, Tls};
use crate::serve::connections_memory::HeldBytes;
use crate::serve::{App, Protocol};

/// Delay after a failed accept, for example when the process has no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Minimum time between log lines about failed accepts.
const ACCEPT_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Handles the connections of a listener. It must watch [`App::drain`] itself.
pub trait ConnectionHandler: Send + Sync + 'static {
    /// The protocol that it speaks.
    const PROTOCOL: Protocol;

    /// Serves a connection until it ends.
    fn serve(&self, stream: Stream) -> impl Future<Output = ()> + Send;
}

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
    per_ip: Option<Arc<ConnectionsPerIp>>,
}

/// How connections are accepted.
#[derive(Clone)]
pub struct AcceptOptions {
    /// Maximum number of connections. Further ones are closed immediately.
    pub connections_max: usize,
    /// For TLS addresses.
    pub tls: Option<Arc<Tls>>,
    /// Tracks the tasks of connections.
    pub tasks: TaskTracker,
}

impl Listener {
    /// Binds the socket; `None` if the address is `off`.
    pub async fn bind(protocol: Protocol, address: &Address) -> Result<Option<Self>, BindError> {
        let bound = Socket::bind(protocol, address).await?;
        Ok(bound.map(|(socket, address)| Self { socket, address, per_ip: None }))
    }

    /// Accepts at most this many connections from one client. Further ones are closed immediately.
    #[must_use]
    pub fn with_connections_per_ip_max(self, max: Option<NonZeroUsize>) -> Self {
        Self { per_ip: max.map(|max| Arc::new(ConnectionsPerIp::new(max))), ..self }
    }

    /// The address that was bound, with the actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts connections until the server drains.
    pub async fn run<S: ConnectionHandler>(self, app: Arc<App>, handler: S, options: AcceptOptions) {
        let handler = Arc::new(handler);
        let permits = Arc::new(Semaphore::new(options.connections_max));
        let tls = options.tls.filter(|_| matches!(self.address, Address::Tls(_)));
        let mut log_again_at = None;
        loop {
            let accepted = tokio::select! {
                biased;
                () = app.drain.wait() => return,
                accepted = self.socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    if log_again_at.is_none_or(|at| Instant::now() >= at) {
                        log_again_at = Some(Instant::now() + ACCEPT_ERROR_LOG_INTERVAL);
                        let (protocol, address) = (S::PROTOCOL.as_str(), &self.address);
                        tracing::error!(
                            protocol, %address, %error,
                            "cannot accept connections (hint: raise the limit of open files)"
                        );
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                app.metrics.count_over_connection_limit(S::PROTOCOL);
                continue;
            };
            let Ok(ip_permit) = self.per_ip.as_ref().map_or(Ok(None), |per_ip| per_ip.count(&stream)) else {
                app.metrics.count_refused_connection(S::PROTOCOL, "too_many_from_ip");
                continue;
            };
            let Some(held) = app.connections_memory.try_reserve(S::PROTOCOL) else {
                app.metrics.count_refused_connection(S::PROTOCOL, "memory");
                continue;
            };
            let resources = ConnectionResources { _permit: permit, _ip_permit: ip_permit, _held: held };
            let guard = ConnectionGuard::new(Arc::clone(&app), S::PROTOCOL, resources);
            let (handler, tls) = (Arc::clone(&handler), tls.clone());
            options.tasks.spawn(async move {
                if let Some(stream) = accept_tls(&guard.app, S::PROTOCOL, stream, tls.as_deref()).await {
                    handler.serve(stream).await;
                }
            });
        }
    }
}

/// Counts a connection and holds what it takes. Releases both when dropped, also after a panic.
struct ConnectionGuard {
    app: Arc<App>,
    protocol: Protocol,
    _resources: ConnectionResources,
}

/// What a connection takes of what is bounded.
struct ConnectionResources {
    _permit: OwnedSemaphorePermit,
    _ip_permit: Option<IpPermit>,
    _held: HeldBytes,
}

impl ConnectionGuard {
    fn new(app: Arc<App>, protocol: Protocol, resources: ConnectionResources) -> Self {
        app.metrics.connection_opened(protocol);
        Self { app, protocol, _resources: resources }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.app.metrics.connection_closed(self.protocol);
    }
}

/// Performs the TLS handshake if the address has TLS. `None` if it fails or the server drains first.
async fn accept_tls(app: &App, protocol: Protocol, stream: Stream, tls: Option<&Tls>) -> Option<Stream> {
    let (stream, tls) = match (stream, tls) {
        (Stream::Tcp(stream), Some(tls)) => (stream, tls),
        (stream, _) => return Some(stream),
    };
    tokio::select! {
        stream = handshake(app, protocol, stream, tls) => stream,
        () = app.drain.wait() => None,
    }
}

async fn handshake(app: &App, protocol: Protocol, stream: TcpStream, tls: &Tls) -> Option<Stream> {
    let handshake = tls.acceptor(protocol).accept(stream);
    let reason = match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => return Some(Stream::Tls(Box::new(stream))),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the client took longer than {HANDSHAKE_TIMEOUT:?}"),
    };
    app.metrics.count_refused_connection(protocol, "handshake");
    tracing::debug!(protocol = protocol.as_str(), why = reason, "TLS handshake failed");
    None
}

#[cfg(test)]
#[path = "accept_tests.rs"]
mod tests;
