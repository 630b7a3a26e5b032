//! Wrong passwords and tokens: counted, logged now and then, and answered late.
//!
//! The delay slows down guessing: a connection has one guess at a time. A right secret is never delayed.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Clock as _;
use tokio::time::Sleep;

use super::line_limiter::{LineBudget, LineLimiter};
use super::rounding::SECOND_NS;
use super::{App, Protocol};

/// How long the answer to a wrong secret is delayed by default.
pub const FAILED_LOGIN_DELAY: Duration = Duration::from_secs(1);
/// The length of a window with one log line for each protocol.
const LOG_WINDOW_NS: u64 = 10 * SECOND_NS;

/// The time from one report of attempts without a line to the next.
const REPORT_INTERVAL: Duration = Duration::from_nanos(LOG_WINDOW_NS);

/// What a failed login causes.
#[derive(Debug)]
pub struct FailedLogins {
    delay: Duration,
    lines: [LineLimiter; Protocol::ALL.len()],
}

impl FailedLogins {
    /// With another delay.
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay, lines: std::array::from_fn(|_| LineLimiter::new(1, LOG_WINDOW_NS)) }
    }
}

impl Default for FailedLogins {
    fn default() -> Self {
        Self::with_delay(FAILED_LOGIN_DELAY)
    }
}

impl App {
    /// Counts and logs a failed login. The answer must wait for the returned timer.
    #[cold]
    pub fn failed_login(&self, protocol: Protocol) -> Sleep {
        self.metrics.count_failed_login(protocol);
        let FailedLogins { delay, lines } = &self.failed_logins;
        if let LineBudget::Write { suppressed } =
            lines[protocol as usize].take_line(self.engine.clock().now())
        {
            log(protocol, suppressed + 1);
        }
        tokio::time::sleep(*delay)
    }
}

/// Logs attempts that had no line and were followed by no other, until the server drains.
pub async fn report_suppressed(app: Arc<App>) {
    let mut interval = tokio::time::interval(REPORT_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        for protocol in Protocol::ALL {
            let lines = &app.failed_logins.lines[protocol as usize];
            if let attempts @ 1.. = lines.take_suppressed(app.engine.clock().now()) {
                log(protocol, attempts);
            }
        }
    }
}

fn log(protocol: Protocol, attempts: u64) {
    tracing::warn!(
        protocol = protocol.as_str(),
        attempts,
        "clients sent a wrong secret, or none where one is needed (hint: allow only your operators and applications \
         to reach the address)"
    );
}
