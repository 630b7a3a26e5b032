//! A connection that receives published messages.

use redis::{ErrorKind, PushInfo, PushKind, RedisError, Value};

use super::client_config::{ClientConfig, Endpoint};
use super::multiplexed::Connection;
use crate::redis::key_name::KeyName;

/// A connection that receives published messages.
pub(crate) struct SubscriberConnection {
    connection: Connection,
}

/// Why no messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscribeError {
    /// There is no connection, or it broke.
    Broken,
    /// The user has no permission to subscribe.
    Forbidden,
}

impl SubscriberConnection {
    /// Opens a connection to a Redis server. `on_message` gets the channel of each message.
    pub async fn open(
        config: &ClientConfig,
        endpoint: &Endpoint<'_>,
        on_message: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<Self, SubscribeError> {
        let on_push = move |push: PushInfo| -> Result<(), ()> {
            if let (PushKind::Message, Some(Value::BulkString(channel))) = (push.kind, push.data.first()) {
                on_message(channel);
            }
            Ok(())
        };
        let connection = Connection::open_subscriber(config, endpoint, on_push).await;
        connection.map(|connection| Self { connection }).map_err(|_| SubscribeError::Broken)
    }

    pub async fn subscribe(&self, channels: &[KeyName]) -> Result<(), SubscribeError> {
        self.connection.subscribe(&as_slices(channels)).await.map_err(|error| subscribe_error(&error))
    }

    pub async fn unsubscribe(&self, channels: &[KeyName]) -> Result<(), SubscribeError> {
        self.connection.unsubscribe(&as_slices(channels)).await.map_err(|error| subscribe_error(&error))
    }

    pub async fn until_broken(&self) {
        self.connection.until_broken().await;
    }
}

fn as_slices(channels: &[KeyName]) -> Vec<&[u8]> {
    channels.iter().map(KeyName::as_slice).collect()
}

fn subscribe_error(error: &RedisError) -> SubscribeError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => SubscribeError::Forbidden,
        _ => SubscribeError::Broken,
    }
}
