//! Checks that a connection answers itself, without hyper.
//!
//! ```text
//! connection.rs   reads, answers every whole request that has arrived, and writes the replies together
//! request.rs      finds a request at the start of the input
//! reply.rs        writes a reply as hyper would, byte by byte
//! date.rs         the header `date`
//! ```
//!
//! For a small request, hyper and its types take more instructions than the decision: maps of headers, a channel for the
//! body, and buffers that requests share. Nearly all requests on the HTTP listener are single checks of one shape, which
//! need none of these. So a connection starts here. `httparse`, the parser that hyper uses, reads the head.
//!
//! **This path never rejects a request.** At the first input of another shape it hands the connection over to hyper, with
//! all input that is not answered, and hyper serves it to its end. That includes everything that needs care: other paths
//! and methods, unusual framing, large or slow requests, errors, requests that wait, the drain, and the end of the input.
//! The decision to hand over comes before anything is charged.

mod connection;
mod date;
mod reply;
mod request;

pub(super) use connection::{DirectChecks, Unread, serve};
