//! Protobuf as it is on the wire: fields, one after the other, each with its number and its value.
//!
//! Written by hand: the few messages that are spoken here are read without copying them and written in one go.

mod reader;
mod writer;

#[cfg(test)]
mod tests;

#[cfg(test)]
use reader::Field;
pub use reader::{Reader, Value, WireError};
pub use writer::Writer;
