//! The memory that the calls of one connection take, and its bounds.
//!
//! Three things count against `--connections-memory-max`: open streams, what their calls keep, and responses that are not
//! written yet. The first [`INCLUDED_BYTES`] are part of what every connection has reserved, so a client with a few small
//! calls at a time reserves nothing here. Above that, the reservation grows in steps, and shrinks when the connection has
//! nothing left to do. So a burst of calls does not change the shared count for each of them.

use bytes::Bytes;

use crate::serve::connections_memory::HeldBytes;
use crate::serve::grpc::connection::KEPT_BYTES_MAX;
use crate::serve::grpc::status::{GrpcCode, GrpcStatus};
use crate::serve::grpc::unsent::{UnsentResponses, response_bytes};

/// What a stream takes whose call is not finished: its state in h2, the call and its waker. Measured as the growth of
/// resident memory with streams of which only the headers have arrived: 1.3 kB each with 250 streams per connection,
/// 2.0 kB with 20.
pub const STREAM_BYTES: usize = 2 << 10;
/// What a call takes in addition while a rule delays it, beyond the message and `WAITER_BYTES`. Measured as the growth of
/// resident memory with 25,000 of them: 13.0 kB each with their streams.
pub const DELAYED_CALL_BYTES: usize = 4 << 10;
/// The same while it waits for a shared store, where `WAITER_BYTES` are not reserved.
pub const STORE_CALL_BYTES: usize = 12 << 10;

/// The part of `connection_bytes` that is for calls. The rest is for the connection itself, which takes 17 kB.
const INCLUDED_BYTES: usize = 40 << 10;
/// The reservation is a multiple of this.
const RESERVATION_STEP_BYTES: usize = 32 << 10;
/// What a call keeps besides its message: the frame, and the lists of its descriptors and entries.
const MESSAGE_OVERHEAD_BYTES: usize = 256 << 10;

const OUT_OF_MEMORY: &str = "the server has no memory for the call (hint: try again later, or raise the server's \
                             --connections-memory-max)";

/// What an unfinished call keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptBytes {
    /// Of its messages, and of the request that was read from them. Bounded for each connection.
    pub messages: usize,
    /// Everything else.
    pub overhead: usize,
}

/// The memory of one connection's calls.
pub struct CallsMemory {
    held: HeldBytes,
    messages_bytes_max: usize,
    /// Of unfinished calls, except the call that is being polled.
    other_calls: KeptBytes,
    pub unsent: UnsentResponses,
}

impl KeptBytes {
    /// Of a call that keeps only messages, besides its stream.
    pub fn of_messages(messages: usize) -> Self {
        Self { messages, overhead: STREAM_BYTES }
    }

    fn total(self) -> usize {
        self.messages + self.overhead
    }
}

impl CallsMemory {
    /// `held` is a reservation of nothing, and `body_bytes_max` the largest message.
    pub fn new(held: HeldBytes, body_bytes_max: usize) -> Self {
        // At least one message of the maximum size has room.
        let messages_bytes_max = KEPT_BYTES_MAX.max(body_bytes_max + MESSAGE_OVERHEAD_BYTES);
        Self {
            held,
            messages_bytes_max,
            other_calls: KeptBytes::default(),
            unsent: UnsentResponses::default(),
        }
    }

    /// Counts an unfinished call.
    pub fn add(&mut self, call: KeptBytes) {
        self.other_calls.messages += call.messages;
        self.other_calls.overhead += call.overhead;
    }

    /// Ends the count of a call that was added.
    pub fn remove(&mut self, call: KeptBytes) {
        self.other_calls.messages -= call.messages;
        self.other_calls.overhead -= call.overhead;
    }

    /// Whether there is room for a new stream.
    #[inline]
    pub fn check_stream(&self) -> Result<(), GrpcStatus> {
        self.reserve(STREAM_BYTES)
    }

    /// Whether the call that is being polled may keep this much.
    pub fn check_call(&self, call: KeptBytes) -> Result<(), GrpcStatus> {
        if self.other_calls.messages + call.messages > self.messages_bytes_max {
            let message =
                "unfinished calls on this connection keep too many bytes (hint: send fewer at a time)";
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        self.reserve(call.total())
    }

    /// Whether a response with this message may wait to be written.
    #[inline]
    pub fn check_response(&self, message: &Bytes) -> Result<(), GrpcStatus> {
        self.reserve(response_bytes(message))
    }

    /// Reduces the reservation to what is in use.
    #[inline]
    pub fn release_unused(&self) {
        let bytes = self.reservation_for(0);
        if bytes < self.held.bytes() {
            // Less can always be held.
            let _ = self.held.try_hold(bytes);
        }
    }

    /// Reserves memory for `bytes` in addition to what is in use.
    #[inline]
    fn reserve(&self, bytes: usize) -> Result<(), GrpcStatus> {
        let bytes = self.reservation_for(bytes);
        if bytes <= self.held.bytes() || self.held.try_hold(bytes) {
            return Ok(());
        }
        Err(GrpcStatus::new(GrpcCode::ResourceExhausted, OUT_OF_MEMORY))
    }

    fn reservation_for(&self, bytes: usize) -> u64 {
        let in_use = self.other_calls.total() + self.unsent.bytes();
        (in_use + bytes).saturating_sub(INCLUDED_BYTES).next_multiple_of(RESERVATION_STEP_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serve::Protocol;
    use crate::serve::connections_memory::ConnectionsMemory;

    const SMALL: KeptBytes = KeptBytes { messages: 100, overhead: STREAM_BYTES };

    fn calls_memory(bytes_max: u64) -> (Arc<ConnectionsMemory>, CallsMemory) {
        let memory = Arc::new(ConnectionsMemory::new(bytes_max));
        let held = memory.reserve_nothing(Protocol::Grpc);
        (memory, CallsMemory::new(held, 1 << 20))
    }

    #[test]
    fn a_few_small_calls_reserve_nothing() {
        let (memory, mut calls) = calls_memory(u64::MAX);
        for _ in 0..INCLUDED_BYTES / SMALL.total() {
            assert!(calls.check_stream().is_ok() && calls.check_call(SMALL).is_ok());
            calls.add(SMALL);
        }
        assert_eq!(memory.used(), 0);
        assert!(calls.check_stream().is_ok());
        assert_eq!(memory.used(), RESERVATION_STEP_BYTES as u64);
    }

    #[test]
    fn streams_and_unsent_responses_count_until_they_end() {
        let (memory, mut calls) = calls_memory(1 << 20);
        let mut open = 0;
        while calls.check_stream().is_ok() {
            calls.add(KeptBytes::of_messages(0));
            open += 1;
        }
        let held_bytes = usize::try_from(memory.used()).unwrap() + INCLUDED_BYTES;
        assert_eq!(open, held_bytes / STREAM_BYTES);
        (0..open).for_each(|_| calls.remove(KeptBytes::of_messages(0)));
        calls.release_unused();
        assert_eq!(memory.used(), 0);
        let message = Bytes::from(vec![0; 10_000]);
        let mut unsent = Vec::new();
        while calls.check_response(&message).is_ok() {
            unsent.push(calls.unsent.count(message.clone()));
        }
        assert_eq!(unsent.len(), held_bytes / response_bytes(&message));
        assert!(calls.check_call(KeptBytes::of_messages(40_000)).is_err());
        drop(unsent);
        calls.release_unused();
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn messages_have_a_bound_of_their_own() {
        let (_, mut calls) = calls_memory(u64::MAX);
        calls.add(KeptBytes { messages: KEPT_BYTES_MAX - 100, overhead: 1 << 30 });
        assert!(calls.check_call(SMALL).is_ok());
        assert!(calls.check_call(KeptBytes::of_messages(101)).is_err());
    }
}
