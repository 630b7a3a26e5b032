//! What can be set, by flags, by the environment and in a file.
//!
//! ```text
//! args.rs     every setting, once
//! values.rs   what their values may be; secret.rs those that are not shown
//! bounds.rs   what listeners are told of them
//! ```

mod args;
mod bounds;
mod secret;
mod values;

pub use args::ServeArgs;
pub use bounds::{BODY_BYTES_MAX, Bounds};
pub use secret::{EmptySecret, Secret};
pub use values::{LogFormat, LogKeys, LogLevel, PrintAddresses, RlsDetails};
