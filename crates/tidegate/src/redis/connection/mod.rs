//! Talking to one Redis server.
//!
//! ```text
//! Server               one server: its live connection, its breaker, its counters     server.rs
//!   ManagedServer      the task that keeps it connected                               reconnector.rs
//!   connect            opens a connection                                             multiplexed.rs, tls.rs
//!                      logs in, and checks what kind of server it is                  handshake.rs
//!                      loads the scripts, and runs the commands of a decision         probe.rs
//!   ServerPipeline     commands that are sent together                                pipeline.rs
//!     CommandReply     what a reply means for its command                             reply.rs
//!   Replication        whether replicas have what was written                         replicas.rs
//!   WriteRefusal       a server that only reads                                       writes.rs
//! SubscriberConnection receives published messages                                    subscriber.rs
//! ```
//!
//! [`Breaker`](breaker::Breaker) stops calls to a server that keeps failing. `backoff` and `jitter` choose the
//! pauses between attempts to connect, and `attempts` remembers which errors were reported.
//!
//! A server gets its address from the [topology](super::topology): it is fixed, or Sentinels know it. Otherwise
//! nothing here depends on how the servers are organized.

mod attempts;
mod backoff;
mod breaker;
mod client_config;
mod connect_error;
mod event;
mod handshake;
mod jitter;
mod multiplexed;
mod pipeline;
mod probe;
mod reconnector;
mod replicas;
mod reply;
mod server;
mod stats;
mod subscriber;
mod tls;
mod writes;

pub use connect_error::{ConnectError, ConnectErrorKind};
pub use event::{EventHook, StoreEvent};
pub use stats::{BreakerState, ServerCounts, ServerStats, ServersStats, WriteState};

pub(crate) use attempts::{ConnectAttempts, Novelty};
pub(crate) use backoff::Backoff;
pub(crate) use client_config::{ClientConfig, Endpoint};
pub(crate) use handshake::{ServerMode, as_text, handshake, into_result, refusal_error};
pub(crate) use jitter::{JitterRange, random_u64};
pub(crate) use multiplexed::{Connection, closed_error};
pub(crate) use pipeline::{
    PipelineItem, PipelineMode, PipelinePurpose, PipelineTerms, SendError, ServerPipeline, SlotCommand,
};
pub(crate) use probe::{ConnectTimeouts, timeout_error};
pub(crate) use reconnector::{ManagedServer, connect_all};
pub(crate) use replicas::Replication;
pub(crate) use reply::{CommandReply, Redirect, RefusalScope};
pub(crate) use server::{Membership, Server};
pub(crate) use subscriber::{SubscribeError, SubscriberConnection};
