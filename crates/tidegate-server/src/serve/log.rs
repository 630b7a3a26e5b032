//! Sets up the log. Denied requests are logged by `denial_log.rs`.

use std::io::{self, IsTerminal};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::settings::{LogFormat, LogLevel};

/// The prefix of Tidegate's own targets. Of other libraries only warnings and errors are logged.
const TARGET_PREFIX: &str = "tidegate";

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
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
