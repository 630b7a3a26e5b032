//! The futures: a request that comes, stands in line, and leaves.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_core::{Nanos, Timestamp};

use super::Refusal;
use super::nap::Nap;
use super::of_limiter::OfLimiter;
use super::queue::{Departure, Exit, Step, Ticket, Waiter};
use super::queues::Arrival;
use super::request::Request;
use crate::Timer;
use crate::holding::{Admitted, Holding};

/// Waits until it holds what it asked for. See [`Limiter::acquire`](crate::Limiter::acquire).
#[must_use = "futures do nothing unless they are polled"]
pub struct UntilAcquired<'a, C: Timer>(Waiting<'a, C>);

struct Waiting<'a, C: Timer> {
    request: OfLimiter<'a, C>,
    max_wait: Option<Duration>,
    arrived: Timestamp,
    stage: Stage<C::Sleep>,
}

enum Stage<S> {
    /// Not polled yet.
    New,
    /// In line; in front of it if it sleeps until an instant.
    InLine {
        ticket: Ticket,
        nap: Nap<S>,
    },
    /// Admitted, and held until it leaves.
    Held {
        ticket: Ticket,
        departure: Departure<Admitted>,
        sleep: S,
    },
    Over,
}

impl<'a, C: Timer> UntilAcquired<'a, C> {
    pub(crate) fn new(request: OfLimiter<'a, C>, max_wait: Option<Duration>) -> Self {
        Self(Waiting::new(request, max_wait))
    }
}

impl<'a, C: Timer> Future for UntilAcquired<'a, C> {
    type Output = Result<Holding<'a, C>, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waiting = &mut self.0;
        waiting.poll(context).map_ok(|departure| {
            let request = &mut waiting.request;
            Holding::of(request.limiter, std::mem::take(&mut request.key), departure.given, request.ttl)
        })
    }
}

impl<'a, C: Timer> Waiting<'a, C> {
    fn new(request: OfLimiter<'a, C>, max_wait: Option<Duration>) -> Self {
        Self { request, max_wait, arrived: Timestamp::default(), stage: Stage::New }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Departure<Admitted>, Refusal>> {
        let polled = self.go_on(context);
        self.request.tell();
        polled
    }

    fn go_on(&mut self, context: &mut Context<'_>) -> Poll<Result<Departure<Admitted>, Refusal>> {
        let limiter = self.request.limiter;
        let (clock, queues) = (limiter.clock(), limiter.queues());
        loop {
            match &mut self.stage {
                Stage::New => {
                    self.arrived = clock.now();
                    match queues.arrive(&self.request, self.waiter(context)) {
                        Arrival::Leaves(given) => {
                            return self.over(Ok(Departure { given, leaves: self.arrived }));
                        }
                        Arrival::Refused(refusal) => return self.over(Err(refusal)),
                        Arrival::Waits(ticket) => self.stage = Stage::InLine { ticket, nap: Nap::none() },
                        Arrival::Held { given, leaves, ticket } => {
                            self.hold(ticket, Departure { given, leaves });
                        }
                    }
                }
                Stage::InLine { ticket, nap } => {
                    let now = clock.now();
                    match queues.step(&self.request, *ticket, now, context.waker()) {
                        Step::Leaves(departure) => return self.over(Ok(departure)),
                        Step::Refused(refusal) => return self.over(Err(refusal)),
                        Step::Held(departure) => {
                            let ticket = *ticket;
                            self.hold(ticket, departure);
                        }
                        Step::Behind => return Poll::Pending,
                        Step::AskAgain(at) => {
                            ready!(nap.poll_until(at, clock, context));
                        }
                    }
                }
                Stage::Held { ticket, sleep, .. } => {
                    ready!(Pin::new(sleep).poll(context));
                    queues.leave(&self.request.key, *ticket, Exit::Done);
                    if let Stage::Held { departure, .. } = std::mem::replace(&mut self.stage, Stage::Over) {
                        return Poll::Ready(Ok(departure));
                    }
                }
                Stage::Over => panic!("a future was polled after it was done"),
            }
        }
    }

    fn waiter(&self, context: &Context<'_>) -> Waiter {
        let deadline = |max_wait: Duration| self.arrived.saturating_add(Nanos::new(max_wait.as_nanos()));
        Waiter {
            ticket: None,
            cost: self.request.cost,
            arrived: self.arrived,
            deadline: self.max_wait.map(deadline),
            foreseen: None,
            waker: context.waker().clone(),
        }
    }

    fn hold(&mut self, ticket: Ticket, departure: Departure<Admitted>) {
        let sleep = self.request.limiter.clock().sleep_until(departure.leaves);
        self.stage = Stage::Held { ticket, departure, sleep };
    }

    fn over<T>(&mut self, done: T) -> Poll<T> {
        self.stage = Stage::Over;
        Poll::Ready(done)
    }
}

/// Whoever is dropped steps out of the line and has charged nothing.
impl<C: Timer> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        let ticket = match &self.stage {
            Stage::InLine { ticket, .. } => *ticket,
            Stage::Held { ticket, departure, .. } => {
                self.request.give_back(&departure.given);
                *ticket
            }
            Stage::New | Stage::Over => return,
        };
        let limiter = self.request.limiter;
        limiter.queues().leave(&self.request.key, ticket, Exit::Dropped(limiter.clock().now()));
        self.request.tell();
    }
}

impl<C: Timer> fmt::Debug for UntilAcquired<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntilAcquired").field("max_wait", &self.0.max_wait).finish_non_exhaustive()
    }
}
