//! Protobuf's wire format: a sequence of fields, each with a number and a value.
//!
//! Written by hand: requests are read without copies, responses are written in one pass, and the build needs no
//! protobuf compiler.

mod reader;
mod writer;

#[cfg(test)]
mod tests;

#[cfg(test)]
use reader::Field;
pub use reader::{Reader, Value, WireError};
pub use writer::Writer;
