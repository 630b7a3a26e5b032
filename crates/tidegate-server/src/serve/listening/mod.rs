//! Sockets, and what comes in by them.

mod accept;
mod address;
mod stream;

pub use accept::{Listener, Serves};
pub use address::{Address, NotAnAddress};
pub use stream::Stream;
