//! Reads and writes the messages of the rate limit service as protobuf.

mod request;
mod response;

#[cfg(test)]
mod tests;

pub use request::read_request;
pub use response::write_response;
