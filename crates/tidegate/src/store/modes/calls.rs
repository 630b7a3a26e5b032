//! Calls to the shared store for which no request waits: pushes of counts, and refunds of leases that were not used.
//!
//! They are sent together, so that they share pipelines. Sweeps take room before they send, and leave the rest for later, so that the
//! queue of the store has room for decisions. Refunds leave half of the room to pushes.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::{Inner, poll_once};
use crate::store::{Reply, Response, Store, StoreError};

/// Calls that wait for replies at most, if sweeps send them.
pub(super) const CALLS_MAX: u64 = 8_192;
/// Refunds are sent only while fewer calls than this wait for replies.
pub(super) const REFUNDS_MAX: u64 = CALLS_MAX / 2;
/// How many replies one task waits for. Each one that comes alone makes it look at all of them.
const CALLS_PER_TASK: usize = 64;

impl<S: Store + 'static> Inner<S> {
    /// Counts up to `wanted` calls as under way, if fewer than `calls_max` are. Returns how many may be sent.
    pub fn take_room(&self, wanted: usize, calls_max: u64) -> usize {
        let room = |under_way: u64| calls_max.saturating_sub(under_way).min(wanted as u64);
        let taken = self.calls_under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |under_way| {
            Some(under_way + room(under_way))
        });
        let before = taken.unwrap_or(calls_max);
        usize::try_from(room(before)).unwrap_or(0)
    }

    /// Gives back room for calls that are not sent, or that have ended.
    pub fn give_back_room(&self, calls: usize) {
        self.calls_under_way.fetch_sub(calls as u64, Ordering::Relaxed);
    }

    /// Sends calls together, and passes each one with its reply to `finish`, in the order of the replies: that of a slow
    /// server must not keep the others. The calls were counted as under way before.
    pub fn send_calls<T: Send + Unpin + 'static>(
        self: &Arc<Self>,
        calls: Vec<T>,
        send: impl Fn(&Self, &T) -> Response,
        finish: impl Fn(&Self, T, Result<Reply, StoreError>) + Clone + Send + Unpin + 'static,
    ) {
        let mut under_way = Vec::new();
        for call in calls {
            match send(self, &call) {
                Response::Now(reply) => self.end_call(call, reply, &finish),
                Response::Later(mut later) => match poll_once(&mut later) {
                    Poll::Ready(reply) => self.end_call(call, reply, &finish),
                    Poll::Pending => under_way.push((call, later)),
                },
            }
        }
        while !under_way.is_empty() {
            let rest = under_way.split_off(under_way.len().min(CALLS_PER_TASK));
            let mut waiting = std::mem::replace(&mut under_way, rest);
            let (inner, finish) = (self.clone(), finish.clone());
            self.spawn(poll_fn(move |context| {
                let mut index = 0;
                while let Some((_, later)) = waiting.get_mut(index) {
                    match later.as_mut().poll(context) {
                        Poll::Ready(reply) => {
                            let (call, _) = waiting.swap_remove(index);
                            inner.end_call(call, reply, &finish);
                        }
                        Poll::Pending => index += 1,
                    }
                }
                if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
    }

    fn end_call<T>(
        &self,
        call: T,
        reply: Result<Reply, StoreError>,
        finish: &impl Fn(&Self, T, Result<Reply, StoreError>),
    ) {
        finish(self, call, reply);
        self.give_back_room(1);
    }
}
