//! Sockets, and what comes in by them.

mod accept;
mod address;
mod socket;
mod stream;
mod tls;
mod tls_error;

pub use accept::{AcceptOptions, Listener, ConnectionHandler};
pub use address::{Address, AddressError};
pub use socket::BindError;
pub use stream::Stream;
pub use tls::{CertificateReload, Tls, TlsFiles};
pub use tls_error::TlsError;
