//! Sockets, and what comes in by them.

mod accept;
mod address;
mod stream;
mod tls_error;

pub use accept::{Listener, Serves};
pub use address::{Address, NotAnAddress};
pub use stream::Stream;
pub use tls_error::TlsError;
