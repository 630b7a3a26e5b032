//! Layers for HTTP clients that keep to the limits of servers.
//!
//! ```text
//! cache/    answers from a small cache where Cache-Control allows it
//! retry/    waits while a server's limits are used up, and retries with back-off, within a budget
//! pacer.rs  sends at a steady rate
//! ```
//!
//! Stack them in this order, the cache outermost. Each works alone.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::Pacer;
//! use tidegate::tower::client::{CacheLayer, PacerLayer, RetryLayer};
//! use tower::ServiceBuilder;
//! # use std::convert::Infallible;
//! # use http::{Request, Response};
//! # use http_body_util::Full;
//! # use bytes::Bytes;
//! # use tidegate::tower::client::ReplayBody;
//! # let client = tower::service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//! #     Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
//! # });
//!
//! let client = ServiceBuilder::new()
//!     .layer(CacheLayer::new())
//!     .layer(RetryLayer::new())
//!     .layer(PacerLayer::new(Arc::new(Pacer::new("20/s")?)))
//!     .service(client);
//! # fn is_client<S: tower::Service<Request<Full<Bytes>>>>(_: S) {}
//! # is_client(client);
//! # Ok::<(), tidegate::PacerError>(())
//! ```

mod cache;
mod error;
mod pacer;
mod retry;

use std::pin::Pin;

pub use cache::{CACHE_BYTES_MAX_DEFAULT, CacheBody, CacheLayer, CacheService};
pub use error::ClientError;
pub use pacer::{PacerLayer, PacerService};
pub use retry::{
    ATTEMPTS_MAX_DEFAULT, Attempt, AttemptResult, Backoff, DEADLINE_DEFAULT, REPLAY_BYTES_MAX_DEFAULT,
    ReplayBody, RetryBudget, RetryChoice, RetryLayer, RetryService,
};

/// A future that can be sent to another thread.
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
