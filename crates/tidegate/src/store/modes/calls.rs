//! Calls to the shared store for which no request waits: pushes of counts, and refunds of leases that were not used.
//!
//! They are sent together, so that they share pipelines. Sweeps start at most [`CALLS_MAX`] at a time, so that the queue of
//! the store has room for decisions.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::{Inner, poll_once};
use crate::store::{Reply, Response, Store, StoreError};

/// Calls that wait for replies at most. Sweeps leave further ones for later.
const CALLS_MAX: u64 = 8_192;
/// How many replies one task waits for. Each one that comes alone makes it look at all of them.
const CALLS_PER_TASK: usize = 64;

impl<S: Store + 'static> Inner<S> {
    /// How many calls a sweep may start now.
    pub fn room_for_calls(&self) -> usize {
        let under_way = self.calls_under_way.load(Ordering::Relaxed);
        usize::try_from(CALLS_MAX.saturating_sub(under_way)).unwrap_or(usize::MAX)
    }

    /// Sends calls together, and passes each one with its reply to `finish`, in the order of the replies: that of a slow
    /// server must not keep the others.
    pub fn send_calls<T: Send + Unpin + 'static>(
        self: &Arc<Self>,
        calls: Vec<T>,
        send: impl Fn(&Self, &T) -> Response,
        finish: impl Fn(&Self, T, Result<Reply, StoreError>) + Clone + Send + Unpin + 'static,
    ) {
        let mut under_way = Vec::new();
        for call in calls {
            match send(self, &call) {
                Response::Now(reply) => finish(self, call, reply),
                Response::Later(mut later) => match poll_once(&mut later) {
                    Poll::Ready(reply) => finish(self, call, reply),
                    Poll::Pending => under_way.push((call, later)),
                },
            }
        }
        while !under_way.is_empty() {
            let rest = under_way.split_off(under_way.len().min(CALLS_PER_TASK));
            let mut waiting = std::mem::replace(&mut under_way, rest);
            let (inner, finish) = (self.clone(), finish.clone());
            self.calls_under_way.fetch_add(waiting.len() as u64, Ordering::Relaxed);
            self.spawn(poll_fn(move |context| {
                let mut index = 0;
                while let Some((_, later)) = waiting.get_mut(index) {
                    match later.as_mut().poll(context) {
                        Poll::Ready(reply) => {
                            let (call, _) = waiting.swap_remove(index);
                            finish(&inner, call, reply);
                            inner.calls_under_way.fetch_sub(1, Ordering::Relaxed);
                        }
                        Poll::Pending => index += 1,
                    }
                }
                if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
    }
}
