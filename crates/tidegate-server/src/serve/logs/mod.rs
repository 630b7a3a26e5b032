//! The log: what happens to the server, and a few of the requests that it did not plainly let through.

pub mod denials;

pub use denials::DenialLog;

use std::io::{self, IsTerminal};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use super::settings::{LogFormat, LogLevel};

/// What all targets of ours begin with. What libraries say is not for operators unless it is a warning.
const TARGET_PREFIX: &str = "tidegate";

/// Sends the log to standard error from now on. A program that has a log already keeps it.
pub fn init(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let others = LevelFilter::from_level(level.min(Level::WARN));
    let wanted = Targets::new().with_target(TARGET_PREFIX, level).with_default(others);
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry().with(wanted).with(lines).try_init();
}
