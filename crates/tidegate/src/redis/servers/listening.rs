//! A connection that hears what is published at a server.

use redis::{ErrorKind, PushInfo, PushKind, RedisError, Value};

use super::connection::Connection;
use super::{ServerId, Servers};
use crate::redis::order::KeyName;

/// A connection that hears what is published.
pub(in crate::redis) struct Listener {
    connection: Connection,
}

/// Why nothing is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) enum ListenError {
    /// There is no connection, or it broke.
    Broken,
    /// This user may not subscribe.
    Refused,
}

impl Servers {
    /// A connection to a server that hears messages. `on_message` gets the channel of each.
    pub async fn listen(
        &self,
        server: ServerId,
        on_message: impl Fn(&[u8]) + Send + Sync + 'static,
    ) -> Result<Listener, ListenError> {
        let server = self.server(server).ok_or(ListenError::Broken)?;
        let address = server.address();
        let on_push = move |push: PushInfo| -> Result<(), ()> {
            if let (PushKind::Message, Some(Value::BulkString(channel))) = (push.kind, push.data.first()) {
                on_message(channel);
            }
            Ok(())
        };
        let whom = self.means.server(&address);
        let connection = Connection::open_listening(&self.means, &whom, on_push);
        connection.await.map(|connection| Listener { connection }).map_err(|_| ListenError::Broken)
    }
}

impl Listener {
    pub async fn subscribe(&self, channels: &[KeyName]) -> Result<(), ListenError> {
        self.connection.subscribe(&names(channels)).await.map_err(|error| listen_error(&error))
    }

    pub async fn unsubscribe(&self, channels: &[KeyName]) -> Result<(), ListenError> {
        self.connection.unsubscribe(&names(channels)).await.map_err(|error| listen_error(&error))
    }

    pub async fn until_broken(&self) {
        self.connection.until_broken().await;
    }
}

fn names(channels: &[KeyName]) -> Vec<&[u8]> {
    channels.iter().map(KeyName::as_slice).collect()
}

fn listen_error(error: &RedisError) -> ListenError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => ListenError::Refused,
        _ => ListenError::Broken,
    }
}
