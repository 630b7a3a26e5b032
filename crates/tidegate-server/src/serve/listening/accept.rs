//! A socket that is listened on, and its connections: so many at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::socket::Socket;
use super::{Address, BindError, Stream, Tls};
use crate::serve::{App, Protocol};

/// How long to wait after a connection could not be taken, as when the process has no file left for it.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How often that is worth a line in the log.
const ACCEPT_ERROR_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may take to agree on encryption.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is done with a connection, until it ends. It watches [`App::drain`] by itself.
pub trait ConnectionHandler: Send + Sync + 'static {
    /// Which protocol it speaks.
    const PROTOCOL: Protocol;

    /// Serves a connection until it ends.
    fn serve(&self, stream: Stream) -> impl Future<Output = ()> + Send;
}

/// A socket that is bound.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Address,
}

/// How connections are let in.
#[derive(Clone)]
pub struct AcceptOptions {
    /// So many at a time. Those beyond are closed at once.
    pub connections_max: usize,
    /// For addresses that are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// Has those that are served.
    pub tasks: TaskTracker,
}

impl Listener {
    /// Binds; none if the address is `off`.
    pub async fn bind(protocol: Protocol, address: &Address) -> Result<Option<Self>, BindError> {
        let bound = Socket::bind(protocol, address).await?;
        Ok(bound.map(|(socket, address)| Self { socket, address }))
    }

    /// The address that was really bound.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Takes connections until the server drains.
    pub async fn run<S: ConnectionHandler>(self, app: Arc<App>, serves: S, letting_in: AcceptOptions) {
        let serves = Arc::new(serves);
        let room = Arc::new(Semaphore::new(letting_in.connections_max));
        let tls = letting_in.tls.filter(|_| matches!(self.address, Address::Tls(_)));
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
                            "cannot take connections (hint: may the process have more files open?)"
                        );
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                app.metrics.count_over_connection_limit(S::PROTOCOL);
                continue;
            };
            let connected = ConnectionGuard::new(Arc::clone(&app), S::PROTOCOL, place);
            let (serves, tls) = (Arc::clone(&serves), tls.clone());
            letting_in.tasks.spawn(async move {
                let app = &connected.app;
                if let Some(stream) = accept_tls(app, S::PROTOCOL, stream, tls.as_deref()).await {
                    serves.serve(stream).await;
                }
            });
        }
    }
}

/// A connection that is counted, and has its place, until this is dropped: however its task ends, by a panic too.
struct ConnectionGuard {
    app: Arc<App>,
    protocol: Protocol,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionGuard {
    fn new(app: Arc<App>, protocol: Protocol, place: OwnedSemaphorePermit) -> Self {
        app.metrics.connection_opened(protocol);
        Self { app, protocol, _permit: place }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.app.metrics.connection_closed(self.protocol);
    }
}

/// The connection, encrypted where it is to be; none if the client and the server do not come to terms, or the server
/// is to stop before they do.
async fn accept_tls(app: &App, protocol: Protocol, stream: Stream, tls: Option<&Tls>) -> Option<Stream> {
    let (stream, tls) = match (stream, tls) {
        (Stream::Tcp(stream), Some(tls)) => (stream, tls),
        (stream, _) => return Some(stream),
    };
    tokio::select! {
        encrypted = handshake(app, protocol, stream, tls) => encrypted,
        () = app.drain.wait() => None,
    }
}

async fn handshake(app: &App, protocol: Protocol, stream: TcpStream, tls: &Tls) -> Option<Stream> {
    let greeting = tls.acceptor(protocol).accept(stream);
    let why = match tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await {
        Ok(Ok(stream)) => return Some(Stream::Tls(Box::new(stream))),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the client took longer than {HANDSHAKE_TIMEOUT:?}"),
    };
    app.metrics.count_refused_connection(protocol, "handshake");
    tracing::debug!(protocol = protocol.as_str(), why, "a connection could not be encrypted");
    None
}

#[cfg(test)]
mod tests;
