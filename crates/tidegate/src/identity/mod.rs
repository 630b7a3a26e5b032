//! Attributes of real HTTP requests: the client's address, the path, the user. For forward auth and layers, which see the
//! request itself.
//!
//! ```text
//! HttpRequest  ->  Identity      identify.rs: settings, made once
//!                    method
//!                    path        path.rs: one spelling for each path
//!                    host        without the port
//!                    ip          client_address.rs, forwarded.rs: behind proxies; proxy_protocol.rs: PROXY protocol
//!                    header.*    only those that rules name
//!                    user, tenant, plan    source.rs; token.rs is the interface of token verifiers, jwt/ one of them
//!              ->  Attributes    request.rs: the entries of a descriptor
//! ```
//!
//! self_check.rs finds hints at a wrong configuration in requests.
//!
//! `docs/identity.md` in the repository says what each setting means and what clients can forge.

mod client_address;
mod forwarded;
mod headers;
mod identify;
#[cfg(feature = "jwt")]
#[cfg_attr(docsrs, doc(cfg(feature = "jwt")))]
pub mod jwt;
mod path;
mod proxy_protocol;
mod request;
mod self_check;
mod source;
mod token;

pub use client_address::{ClientAddress, ForwardedHeader, HOPS_MAX};
pub use headers::Headers;
pub use identify::Identity;
pub use path::{PATH_BYTES_MAX, PathError, normal_path};
pub use proxy_protocol::{PROXY_HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError};
pub use request::{Attributes, Entries, HttpRequest};
pub use self_check::{SelfCheck, SelfChecks};
pub use source::{ParseSourceError, Source};
pub use tidegate_core::rules::{NamedAttributes, Net, NetSet};
pub use token::{TokenProblem, VerifyToken};
