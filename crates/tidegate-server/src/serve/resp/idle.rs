//! Idle timeout that does not read the clock for each command.
//!
//! Time is counted in quarters of the timeout. A connection is idle when five quarters began since its last command:
//! after the timeout, and at most a quarter of it later.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Quarters that must begin without a command.
const QUIET_TICKS: u32 = 5;
const TICKS_PER_TIMEOUT: u32 = 4;
/// Tokio's timers are no finer.
const TICK_MIN: Duration = Duration::from_millis(1);

/// Detects that no command arrives.
#[derive(Debug)]
pub(super) struct IdleTimer {
    timeout: Option<Duration>,
    ticks: Option<Interval>,
    quiet_ticks: u32,
}

impl IdleTimer {
    /// With this timeout; `None` means never idle.
    pub fn new(timeout: Option<Duration>) -> Self {
        let ticks = timeout.map(|timeout| {
            let tick = (timeout / TICKS_PER_TIMEOUT).max(TICK_MIN);
            let mut ticks = interval_at(Instant::now() + tick, tick);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        Self { timeout, ticks, quiet_ticks: 0 }
    }

    /// Changes the timeout.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        if timeout != self.timeout {
            *self = Self::new(timeout);
        }
    }

    /// A command arrived.
    #[inline]
    pub fn reset(&mut self) {
        self.quiet_ticks = 0;
    }

    /// Ready when the connection is idle.
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
