//! The error of the client layers.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a request got no response.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// The client below the layers failed.
    Inner(E),
    /// The request was not sent, because it would have had to wait longer than it may.
    WaitTooLong {
        /// How long it would have had to wait.
        wait: Duration,
    },
    /// There was no response before the deadline. The last attempt may have reached the server.
    DeadlineExceeded,
}

impl<E> ClientError<E> {
    /// The error of the client below the layers, if that failed.
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::Inner(error) => Some(error),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ClientError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(error) => error.fmt(f),
            Self::WaitTooLong { wait } => {
                write!(
                    f,
                    "not sent: the request would have to wait for {wait:?}, which is longer than it may"
                )
            }
            Self::DeadlineExceeded => f.write_str("no response before the deadline"),
        }
    }
}

impl<E: Error + 'static> Error for ClientError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Displayed as this error itself.
            Self::Inner(error) => error.source(),
            _ => None,
        }
    }
}
