//! One connection to one server.

use std::io;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Pipeline, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connect_error::{ConnectError, ConnectErrorKind};
use super::means::{ClientConfig, Endpoint};
use super::task::AbortOnDrop;
use crate::redis::url::Address;

/// One connection, shared by all who ask that server. It is closed when the last of them lets go of it, whatever is in
/// flight: what the system has not sent by then is not sent later, when nobody knows of it any more.
#[derive(Clone)]
pub(super) struct Connection {
    requests: MultiplexedConnection,
    /// Its sender is dropped when the connection is broken.
    broken: watch::Receiver<()>,
    _driver: Arc<AbortOnDrop>,
}

impl Connection {
    /// Nothing is said yet. It may take as long as the system lets it: callers have a deadline.
    pub async fn open(means: &ClientConfig, whom: &Endpoint<'_>) -> Result<Self, ConnectError> {
        // With these it sends nothing by itself. What is said first is said, and its replies judged, in `greeting`.
        Self::open_with(means, whom, &RedisConnectionInfo::default(), AsyncConnectionConfig::new()).await
    }

    /// A connection that is logged in and hears messages. Nothing else is to be asked on it.
    pub async fn open_subscriber(
        means: &ClientConfig,
        whom: &Endpoint<'_>,
        on_push: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> Result<Self, ConnectError> {
        // Only the newer protocol has messages beside replies. All servers that are new enough for the script know it.
        let mut info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(login) = whom.login {
            info = info.set_password(&*login.password);
            if let Some(user) = &login.user {
                info = info.set_username(&**user);
            }
        }
        Self::open_with(means, whom, &info, AsyncConnectionConfig::new().set_push_sender(on_push)).await
    }

    async fn open_with(
        means: &ClientConfig,
        whom: &Endpoint<'_>,
        info: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<Self, ConnectError> {
        let address = whom.address;
        let stream = TcpStream::connect((&*address.host, address.port))
            .await
            .and_then(|stream| {
                stream.set_nodelay(true).and_then(|()| stream.set_zero_linger()).map(|()| stream)
            })
            .map_err(|error| unreachable_error(address, &error))?;
        match &means.tls {
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

    /// Hears what is published on channels from now on.
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

    /// Comes to be when the connection is broken.
    pub async fn until_broken(&self) {
        // Nothing is ever sent.
        let _ = self.broken.clone().changed().await;
    }
}

/// A server that hangs up before it has said anything.
pub(super) fn closed_error(address: &Address, error: &RedisError) -> ConnectError {
    ConnectError::new(
        ConnectErrorKind::Unreachable,
        address,
        format!("the connection was closed ({error})"),
        "there may be something else than Redis on that port; or it wants TLS (rediss://), or a certificate of its \
         clients (tls-auth-clients); or it takes no more connections (maxclients), or none from here (protected-mode)",
    )
}

fn unreachable_error(address: &Address, error: &io::Error) -> ConnectError {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: check host and port, and whether Redis runs"
        }
        io::ErrorKind::TimedOut => "no answer at all: check host, port and firewalls",
        _ => "check the host's name and whether it can be reached from here",
    };
    ConnectError::new(ConnectErrorKind::Unreachable, address, error.to_string(), hint)
}
