//! Sockets: addresses, TLS, and accepting connections.
//!
//! ```text
//! address.rs  text        ->  Address
//! socket.rs   Address     ->  a bound socket
//! accept.rs   the socket  ->  connections, each a task
//! connections_per_ip.rs  the maximum of connections from one client
//! tls.rs      certificates, and the TLS handshake
//! stream.rs   a connection over TCP, TLS or a Unix socket
//! ```

mod accept;
mod address;
mod connections_per_ip;
mod socket;
mod stream;
mod tls;
mod tls_error;

pub use accept::{AcceptOptions, ConnectionHandler, Listener};
pub use address::{Address, AddressError};
pub use socket::BindError;
pub use stream::Stream;
pub use tls::{CertificateReload, Tls, TlsFiles};
pub use tls_error::TlsError;
