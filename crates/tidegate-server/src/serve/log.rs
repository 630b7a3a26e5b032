//! Sets up the log. Denied requests are logged by `denial_log.rs`.
//!
//! Libraries log events that clients cause: h2 warns of every connection that is reset for too many errors. So their
//! lines are limited.

use std::io::{self, IsTerminal};

use tidegate::{Clock as _, SystemClock};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::line_limiter::{LineBudget, LineLimiter};
use super::rounding::SECOND_NS;
use super::settings::{LogFormat, LogLevel};

/// The prefix of Tidegate's own targets. Of other libraries only warnings and errors are logged.
const TARGET_PREFIX: &str = "tidegate";

/// The maximum of lines of other libraries in a window.
const LIBRARY_LINES_MAX: u32 = 10;
const LIBRARY_WINDOW_NS: u64 = 10 * SECOND_NS;

/// Sends the log to standard error. Does nothing if the process has a log already.
pub fn init(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let other_level = LevelFilter::from_level(level.min(Level::WARN));
    let filter = Targets::new().with_target(TARGET_PREFIX, level).with_default(other_level);
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry().with(filter).with(LibraryLines::new()).with(lines).try_init();
}

/// Limits the lines of other libraries.
struct LibraryLines {
    limiter: LineLimiter,
    clock: SystemClock,
}

impl LibraryLines {
    fn new() -> Self {
        Self { limiter: LineLimiter::new(LIBRARY_LINES_MAX, LIBRARY_WINDOW_NS), clock: SystemClock::new() }
    }
}

impl<S: Subscriber> Layer<S> for LibraryLines {
    fn event_enabled(&self, event: &Event<'_>, _context: Context<'_, S>) -> bool {
        let target = event.metadata().target();
        if target.starts_with(TARGET_PREFIX) {
            return true;
        }
        match self.limiter.take_line(self.clock.now()) {
            LineBudget::Write { suppressed } => {
                if suppressed > 0 {
                    tracing::warn!(
                        suppressed,
                        "did not log events of libraries, because there were too many"
                    );
                }
                true
            }
            LineBudget::Suppress => false,
        }
    }
}
