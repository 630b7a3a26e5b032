//! Attributes of HTTP requests.

#[cfg(feature = "rules")]
mod address_attributes;
mod attributes;
mod client_address;
#[cfg(feature = "jwt")]
mod jwt;
mod path;
