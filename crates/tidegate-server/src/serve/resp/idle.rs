//! How long nothing was asked, without a look at a clock for every command.
//!
//! Time is told in quarters of the timeout. A connection is idle when five of them began since it last asked something:
//! after the timeout, and a quarter of it later at most.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Quarters that have to begin.
const QUIET_TICKS: u32 = 5;
const TICKS_PER_TIMEOUT: u32 = 4;
/// Timers are no finer.
const TICK_MIN: Duration = Duration::from_millis(1);

/// Tells when nothing was asked for a while.
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Option<Duration>,
    ticks: Option<Interval>,
    quiet_ticks: u32,
}

impl IdleTimer {
    /// After this time; never if there is none.
    pub fn new(timeout: Option<Duration>) -> Self {
        let ticks = timeout.map(|timeout| {
            let tick = (timeout / TICKS_PER_TIMEOUT).max(TICK_MIN);
            let mut ticks = interval_at(Instant::now() + tick, tick);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        Self { timeout, ticks, quiet_ticks: 0 }
    }

    /// From now on after this time.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        if timeout != self.timeout {
            *self = Self::new(timeout);
        }
    }

    /// Something was asked.
    #[inline]
    pub fn reset(&mut self) {
        self.quiet_ticks = 0;
    }

    /// Ready when it is idle.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(ticks) = &mut self.ticks else { return Poll::Pending };
        while Pin::new(&mut *ticks).poll_tick(context).is_ready() {
            self.quiet_ticks += 1;
            if self.quiet_ticks == QUIET_TICKS {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}
