//! A layer that limits the requests of a server.
//!
//! ```text
//! Request -> RequestHead -> Decide -> Decided -> inner service, or a response of the layer
//!
//! layer.rs, service.rs, future.rs   the layer; its service; one request
//! head.rs, key.rs                   what decisions are made by: the head of a request, and its key
//! limits.rs, rules.rs               decide by limits or by rules
//! answer.rs                         what a decision means for a request
//! denied.rs                         the response to a request that is denied
//! slots.rs, body.rs                 leases that are held until the body of the response ends
//! self_check.rs                     reports signs of a wrong configuration
//! ```
//!
//! ```
//! use std::net::SocketAddr;
//! use tidegate::Limiter;
//! use tidegate::tower::server::{PerIp, RateLimitLayer};
//! use axum::{Router, extract::ConnectInfo, routing::get};
//!
//! let per_ip = PerIp::of(|info: &ConnectInfo<SocketAddr>| info.0.ip());
//! let limits = RateLimitLayer::new(Limiter::new("5/s burst 10")?, per_ip);
//! let app: Router = Router::new().route("/", get(async || "hello")).layer(limits);
//! // axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
//! # let _ = app;
//! # Ok::<(), tidegate::LimiterError>(())
//! ```

mod answer;
mod body;
mod denied;
mod future;
mod head;
mod key;
mod layer;
mod limits;
#[cfg(feature = "rules")]
mod rules;
mod self_check;
mod service;
mod slots;

pub use answer::{Decide, Decided, Deciding, RequestAnswer};
pub use body::{KeptBodies, LimitedBodies, LimitedBody, ResponseBodies};
pub use future::ResponseFuture;
pub use head::{PeerAddress, PeerLookup, RequestHead};
pub use key::{KeyExtractor, OneKey, PerHeader, PerIp, PerUser};
pub use layer::{RateLimitLayer, ShadowBan};
pub use limits::ByLimits;
#[cfg(feature = "rules")]
#[cfg_attr(docsrs, doc(cfg(feature = "rules")))]
pub use rules::ByRules;
pub use service::RateLimitService;
pub use tidegate_core::headers::HeaderDialect;
pub use tidegate_core::problem::ProblemKind;
pub use tidegate_core::rules::OnMissingKey;
