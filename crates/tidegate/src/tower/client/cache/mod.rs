//! A small private cache of responses.
//!
//! ```text
//! layer.rs     the layer and its service: answer from the cache, ask by ETag, or send
//! control.rs   Cache-Control, and how long a response is fresh
//! entry.rs     a stored response, and which requests it answers
//! store.rs     all stored responses, bounded in bytes
//! body.rs      records a body while the caller reads it
//! ```

mod body;
mod control;
mod entry;
mod layer;
mod store;

pub use body::CacheBody;
pub use layer::{CACHE_BYTES_MAX_DEFAULT, CacheLayer, CacheService};
