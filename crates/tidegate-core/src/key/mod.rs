//! Keys: what a counter counts for, as bytes.
//!
//! Memory, snapshots and Redis find a counter by the bytes of its key. So the bytes are the same in every version, on
//! every machine, and for every integer width. The standard library's `Hash` promises none of that, so it is not used.
//! [`IntoKey`] lists the encodings.

mod into_key;
mod ip;
mod number;
mod tuple;
pub(crate) mod values;

pub use into_key::{IntoKey, KeyBuf};
pub use ip::IpKey;
pub use number::KeyDigits;
pub use values::{KeyValue, key_values, push_key_value};
