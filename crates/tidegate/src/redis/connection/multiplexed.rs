//! One multiplexed connection to one server.

use std::io;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::client_config::{ClientConfig, Endpoint};
use super::connect_error::{ConnectError, ConnectErrorKind};
use crate::redis::runtime::AbortOnDrop;
use crate::redis::url::Address;

/// One connection, shared by all calls to that server. It closes when the last clone is dropped, whatever is
/// in flight. Otherwise the system might send commands later that no caller waits for any more.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: MultiplexedConnection,
    /// Its sender is dropped when the connection breaks.
    broken: watch::Receiver<()>,
    _driver: Arc<AbortOnDrop>,
}

impl Connection {
    /// Opens a connection and sends nothing yet. It may take as long as the system allows: callers have a
    /// timeout.
    pub async fn open(client: &ClientConfig, endpoint: &Endpoint<'_>) -> Result<Self, ConnectError> {
        // With the default info the client sends nothing by itself. `handshake` sends the first commands and
        // checks their replies.
        Self::open_with(client, endpoint, &RedisConnectionInfo::default(), AsyncConnectionConfig::new()).await
    }

    /// Opens a connection that is logged in and receives messages. It must not be used for other commands.
    pub async fn open_subscriber(
        client: &ClientConfig,
        endpoint: &Endpoint<'_>,
        on_push: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> Result<Self, ConnectError> {
        // Only RESP3 has messages beside replies. All servers that are new enough for the script support it.
        let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(login) = endpoint.login {
            info = info.set_password(&*login.password);
            if let Some(user) = &login.user {
                info = info.set_username(&**user);
            }
        }
        Self::open_with(client, endpoint, &info, AsyncConnectionConfig::new().set_push_sender(on_push)).await
    }

    async fn open_with(
        client: &ClientConfig,
        endpoint: &Endpoint<'_>,
        info: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, ConnectError> {
        let address = endpoint.address;
        let stream = TcpStream::connect((&*address.host, address.port))
            .await
            .and_then(|stream| {
                stream.set_nodelay(true).and_then(|()| stream.set_zero_linger()).map(|()| stream)
            })
            .map_err(|error| unreachable_error(address, &error))?;
        match &client.tls {
            None => Self::from_stream(stream, address, info, config).await,
            Some(tls) => Self::from_stream(tls.connect(address, stream).await?, address, info, config).await,
        }
    }

    async fn from_stream<S>(
        stream: S,
        address: &Address,
        info: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let info = info.clone().set_skip_set_lib_name();
        let config = config.set_connection_timeout(None).set_response_timeout(None);
        let (requests, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| closed_error(address, &error))?;
        let (alive, broken) = watch::channel(());
        let driver = AbortOnDrop::spawn(async move {
            driver.await;
            drop(alive);
        });
        Ok(Self { requests, broken, _driver: Arc::new(driver) })
    }

    /// Subscribes to channels.
    pub async fn subscribe(&self, channels: &[&[u8]]) -> Result<(), RedisError> {
        self.requests.clone().subscribe(channels).await
    }

    pub async fn unsubscribe(&self, channels: &[&[u8]]) -> Result<(), RedisError> {
        self.requests.clone().unsubscribe(channels).await
    }

    /// One reply for each command, or an error if the connection broke. Errors of the server are replies.
    pub async fn send(&self, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.requests.clone().send_packed_commands(pipeline, 0, pipeline.len()).await
    }

    pub fn is_broken(&self) -> bool {
        self.broken.has_changed().is_err()
    }

    /// Completes when the connection is broken.
    pub async fn until_broken(&self) {
        // Nothing is ever sent.
        let _ = self.broken.clone().changed().await;
    }
}

/// The error for a server that closes the connection before its first reply.
pub(crate) fn closed_error(address: &Address, error: &RedisError) -> ConnectError {
    ConnectError::new(
        ConnectErrorKind::Unreachable,
        address,
        format!("the connection was closed ({error})"),
        "there may be something else than Redis on that port; or it requires TLS (rediss://) or a client certificate \
         (tls-auth-clients); or it accepts no more connections (maxclients), or none from this host (protected-mode)",
    )
}

fn unreachable_error(address: &Address, error: &io::Error) -> ConnectError {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: check the host and the port, and that Redis runs"
        }
        io::ErrorKind::TimedOut => "no answer at all: check the host, the port and firewalls",
        _ => "check the host's name, and that it can be reached from here",
    };
    ConnectError::new(ConnectErrorKind::Unreachable, address, error.to_string(), hint)
}
