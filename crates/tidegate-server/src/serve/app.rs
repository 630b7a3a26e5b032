//! What all listeners share: the engine, and what is counted and logged around each of its decisions.

use std::sync::Arc;

use tidegate::rules::{Answer, Request};
use tidegate::{Decided, Engine};
use tidegate_core::PlanFull;

use super::drain::Drain;
use super::metrics::Metrics;
use super::{Protocol, Reloads, Status};

/// What all listeners share. One for the process.
pub struct App {
    /// Decides.
    pub engine: Arc<Engine>,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether the server is about to stop.
    pub drain: Drain,
    /// What is loaded and what failed.
    pub status: Status,
    /// Asks for the rules to be read again.
    pub reloads: Reloads,
}

impl App {
    /// Around this engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            metrics: Metrics::default(),
            drain: Drain::new(),
            status: Status::new(),
            reloads: Reloads::new(),
        }
    }

    /// Decides a request and hands the answer to `answered`: at once, unless a rule with the action `delay` holds it.
    ///
    /// Most requests are decided by the first poll. Dropped while it is held, the request leaves its line and has
    /// charged nothing.
    pub async fn check<R>(
        &self,
        by: Protocol,
        request: &Request<'_>,
        answered: impl FnOnce(&Decided<'_>) -> R,
    ) -> Result<R, PlanFull> {
        let decided = |decided: Decided<'_>| {
            self.metrics.decided(by, &decided.answer);
            answered(&decided)
        };
        self.engine.decide(request, decided).await
    }

    /// Answers as [`check`](Self::check) would that does not wait, and charges nothing.
    pub fn peek<R>(
        &self,
        request: &Request<'_>,
        answered: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, PlanFull> {
        let rules = self.engine.in_force();
        rules.peek(request).map(|answer| answered(&answer))
    }
}
