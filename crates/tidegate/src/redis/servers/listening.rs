//! A connection that hears what is published at a server.

use redis::{ErrorKind, PushInfo, PushKind, RedisError, Value};

use super::connection::Connection;
use super::{ServerId, Servers};
use crate::redis::plan::KeyName;

/// A connection that hears what is published.
pub(in crate::redis) struct SubscriberConnection {
    connection: Connection,
}

/// Why nothing is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum SubscribeError {
    /// There is no connection, or it broke.
    Broken,
    /// This user may not subscribe.
    Forbidden,
}

impl Servers {
    /// A connection to a server that hears messages. `on_message` gets the channel of each.
    pub async fn open_subscriber(
        &self,
        server: ServerId,
        on_message: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<SubscriberConnection, SubscribeError> {
        let server = self.server(server).ok_or(SubscribeError::Broken)?;
        let address = server.address();
        let on_push = move |push: PushInfo| -> Result<(), ()> {
            if let (PushKind::Message, Some(Value::BulkString(channel))) = (push.kind, push.data.first()) {
                on_message(channel);
            }
            Ok(())
        };
        let whom = self.config.endpoint(&address);
        let connection = Connection::open_subscriber(&self.config, &whom, on_push);
        connection.await.map(|connection| SubscriberConnection { connection }).map_err(|_| SubscribeError::Broken)
    }
}

impl SubscriberConnection {
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
