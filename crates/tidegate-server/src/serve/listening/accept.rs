//! A socket that is listened on, and its connections: so many at most.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::{Address, Stream};
use crate::serve::{App, Protocol};

/// How long to wait after a connection could not be taken, as when the process has no file left for it.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// What is done with a connection, until it ends. It watches [`App::drain`] by itself.
pub trait Serves: Send + Sync + 'static {
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

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds; none if the address is `off`.
    pub async fn bind(address: &Address) -> io::Result<Option<Self>> {
        let (socket, address) = match address {
            Address::Off => return Ok(None),
            Address::Tcp(wanted) | Address::Tls(wanted) => {
                let socket = TcpListener::bind(wanted).await?;
                let bound = socket.local_addr()?;
                let is_tls = matches!(address, Address::Tls(_));
                (Socket::Tcp(socket), if is_tls { Address::Tls(bound) } else { Address::Tcp(bound) })
            }
            Address::Unix(path) => (Socket::Unix(UnixListener::bind(path)?), address.clone()),
        };
        Ok(Some(Self { socket, address }))
    }

    /// The address that was really bound.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Takes connections until the server drains; `tasks` has those that are served.
    pub async fn run<S: Serves>(self, app: Arc<App>, serves: S, tasks: TaskTracker, connections_max: usize) {
        let serves = Arc::new(serves);
        let room = Arc::new(Semaphore::new(connections_max));
        loop {
            let accepted = tokio::select! {
                () = app.drain.begun() => return,
                accepted = self.accept() => accepted,
            };
            let Ok(stream) = accepted else {
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            };
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                app.metrics.turned_away(S::PROTOCOL);
                continue;
            };
            let (app, serves) = (Arc::clone(&app), Arc::clone(&serves));
            tasks.spawn(async move {
                app.metrics.connected(S::PROTOCOL);
                serves.serve(stream).await;
                app.metrics.disconnected(S::PROTOCOL);
                drop(place);
            });
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Socket::Unix(socket) => Ok(Stream::Unix(socket.accept().await?.0)),
        }
    }
}
