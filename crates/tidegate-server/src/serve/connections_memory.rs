//! The memory of connections and of the requests that they hold, bounded in bytes.
//!
//! `--memory-max` bounds counters. What connections hold is bounded here, by `--connections-memory-max`:
//!
//! - A quarter is for requests that wait because of a rule with the action `delay`, at [`WAITER_BYTES`] each. The engine
//!   counts them and denies further ones, as if their queue were full.
//! - The rest is for connections. Each takes [`connection_bytes`] for its buffers and its task. A connection that holds
//!   more than that, because of half-sent bodies, incomplete commands, transactions, open streams or replies that the
//!   client does not read, reserves the difference before it holds it. If there is no memory for a connection, it is closed
//!   when it is accepted; if there is none for a request, the request gets an error.
//! - A part of the latter, [`ADMIN_DIVISOR`], is only for connections to the admin listener. So an operator can see the
//!   metrics while other connections take all memory.
//!
//! A refusal is logged, at most once in [`LOG_WINDOW_NS`].
//!
//! A count of bytes costs two atomic operations when it changes. Small requests fit into what their connection has
//! reserved, and change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Clock as _, SystemClock};

use super::Protocol;
use super::line_limiter::{LineBudget, LineLimiter};
use super::rounding::SECOND_NS;

/// What a request that waits takes: its future, its answer, its position in a queue, and a small message. Measured as the
/// growth of resident memory with 100,000 of them over RESP: 4.6 kB each, and 7.0 kB with less optimization. Over gRPC, the
/// connection reserves more (`grpc/calls/memory.rs`).
pub const WAITER_BYTES: u64 = 8 << 10;
/// The part of the memory for requests that wait is all of it divided by this.
const WAITERS_DIVISOR: u64 = 4;
/// The part that is only for the admin listener is the memory of connections divided by this, up to a maximum.
const ADMIN_DIVISOR: u64 = 8;
const ADMIN_BYTES_MAX: u64 = 4 << 20;
/// The length of a window with one log line.
const LOG_WINDOW_NS: u64 = 10 * SECOND_NS;
/// The smallest bound.
pub const CONNECTIONS_MEMORY_MIN: u64 = 1 << 20;

/// What a connection may hold without a further reservation.
pub const fn connection_bytes(protocol: Protocol) -> u64 {
    match protocol {
        // The state of header compression, and a few streams.
        Protocol::Grpc => 64 << 10,
        Protocol::Http | Protocol::Resp | Protocol::Admin => 16 << 10,
    }
}

/// Counts the bytes of all connections against a maximum.
#[derive(Debug)]
pub struct ConnectionsMemory {
    used: AtomicU64,
    max: u64,
    waiters_max: u64,
    refusals: LineLimiter,
    clock: SystemClock,
}

/// Bytes that are reserved until this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    memory: Arc<ConnectionsMemory>,
    protocol: Protocol,
    bytes: AtomicU64,
}

impl ConnectionsMemory {
    /// With this bound for connections and waiting requests together.
    pub fn new(bytes_max: u64) -> Self {
        let for_waiters = bytes_max / WAITERS_DIVISOR;
        Self {
            used: AtomicU64::new(0),
            max: bytes_max - for_waiters,
            waiters_max: (for_waiters / WAITER_BYTES).max(1),
            refusals: LineLimiter::new(1, LOG_WINDOW_NS),
            clock: SystemClock::new(),
        }
    }

    /// Without a bound.
    pub fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// How many requests may wait.
    pub fn waiters_max(&self) -> u64 {
        self.waiters_max
    }

    /// Bytes that connections have reserved.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes that connections may reserve.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The most bytes in use after a reservation for a connection of this protocol.
    fn max_for(&self, protocol: Protocol) -> u64 {
        match protocol {
            Protocol::Admin => self.max,
            Protocol::Http | Protocol::Grpc | Protocol::Resp => {
                self.max - (self.max / ADMIN_DIVISOR).min(ADMIN_BYTES_MAX)
            }
        }
    }

    /// Reserves what a new connection may hold, if there is enough.
    pub fn try_reserve(self: &Arc<Self>, protocol: Protocol) -> Option<HeldBytes> {
        let held = self.reserve_nothing(protocol);
        held.try_hold(connection_bytes(protocol)).then_some(held)
    }

    /// A reservation of nothing, which can grow.
    pub fn reserve_nothing(self: &Arc<Self>, protocol: Protocol) -> HeldBytes {
        HeldBytes { memory: Arc::clone(self), protocol, bytes: AtomicU64::new(0) }
    }

    #[cold]
    fn log_refusal(&self, protocol: Protocol) {
        if let LineBudget::Write { suppressed } = self.refusals.take_line(self.clock.now()) {
            tracing::warn!(
                protocol = protocol.as_str(),
                refusals = suppressed + 1,
                bytes_max = self.max,
                "connections or requests are refused, because connections hold all of their memory (hint: raise \
                 connections_memory_max, or lower connections_max, connections_per_ip_max or request_bytes_max)"
            );
        }
    }
}

impl HeldBytes {
    /// The bytes that are reserved.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the reservation to `bytes`. False, and no change, if there are not enough. One task changes it at a time.
    #[inline]
    pub fn try_hold(&self, bytes: u64) -> bool {
        let before = self.bytes();
        bytes == before || self.change(before, bytes)
    }

    #[cold]
    fn change(&self, before: u64, bytes: u64) -> bool {
        let memory = &*self.memory;
        let max = memory.max_for(self.protocol);
        let add =
            |used: u64| (used - before).checked_add(bytes).filter(|used| bytes < before || *used <= max);
        let has_room = memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if has_room {
            self.bytes.store(bytes, Ordering::Relaxed);
        } else {
            memory.log_refusal(self.protocol);
        }
        has_room
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        // It always succeeds.
        let _ = self.try_hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(memory: &Arc<ConnectionsMemory>, protocol: Protocol, bytes: u64) -> Option<HeldBytes> {
        let held = memory.reserve_nothing(protocol);
        held.try_hold(bytes).then_some(held)
    }

    #[test]
    fn reservations_stay_within_the_bound_and_end_with_their_holder() {
        let memory = Arc::new(ConnectionsMemory::new(4_000));
        assert_eq!((memory.max(), memory.waiters_max()), (3_000, 1));
        let first = held(&memory, Protocol::Http, 1_625).expect("there is room");
        let second = memory.reserve_nothing(Protocol::Http);
        assert!(second.try_hold(1_000) && !second.try_hold(1_001));
        assert!(held(&memory, Protocol::Grpc, 1).is_none() && held(&memory, Protocol::Resp, 1).is_none());
        assert_eq!(memory.used(), 2_625);
        assert!(first.try_hold(500) && second.try_hold(2_125));
        drop(first);
        assert_eq!(memory.used(), 2_125);
        drop(second);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn the_admin_listener_has_a_part() {
        let memory = Arc::new(ConnectionsMemory::new(4_000));
        let all = held(&memory, Protocol::Http, 2_625).expect("there is room");
        let admin = held(&memory, Protocol::Admin, 375).expect("an eighth is for the admin listener");
        assert!(held(&memory, Protocol::Admin, 1).is_none());
        drop((all, admin));
        let large = ConnectionsMemory::new(1 << 30);
        assert_eq!(large.max_for(Protocol::Http), large.max() - ADMIN_BYTES_MAX);
    }

    #[test]
    fn waiting_requests_have_a_part() {
        assert_eq!(ConnectionsMemory::new(1 << 30).waiters_max(), (1 << 28) / WAITER_BYTES);
    }
}
