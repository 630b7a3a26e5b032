//! Attributes of HTTP requests.

mod attributes;
mod client_address;
mod path;
