//! Errors of `tidegate trace`, with hints.

use std::fmt;
use std::io;

use tidegate::LimiterError;

use super::line::LineError;

/// Why a trace was not replayed to its end.
#[derive(Debug)]
pub enum TraceError {
    /// The limits are valid one by one but cannot be combined.
    Limits(LimiterError),
    Open {
        name: String,
        error: io::Error,
    },
    /// The compression is not supported.
    Format {
        name: String,
        format: &'static str,
    },
    Read {
        name: String,
        lines_read: u64,
        error: io::Error,
    },
    Line {
        name: String,
        line_number: u64,
        error: LineError,
    },
    Write(io::Error),
}

impl TraceError {
    /// Whether the reader of the output closed it early, as `head` does. That is not a failure.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(error) => error.fmt(f),
            Self::Open { name, error } => {
                write!(f, "cannot open `{name}`: {error} (hint: give a file, or - for standard input)")
            }
            Self::Format { name, format } => write!(
                f,
                "`{name}` is compressed with {format}, which is not supported (hint: use xz, gzip or zstd, or \
                 decompress it into a pipe and give - as the file)"
            ),
            Self::Read { name, lines_read, error } => {
                let hint = match error.kind() {
                    io::ErrorKind::IsADirectory => "give a file",
                    _ => "the input may be damaged or cut short; check that it can be copied or decompressed",
                };
                match lines_read {
                    0 => write!(f, "cannot read `{name}`: {error} (hint: {hint})"),
                    _ => write!(f, "cannot read `{name}` after line {lines_read}: {error} (hint: {hint})"),
                }
            }
            Self::Line { name, line_number, error } => write!(f, "{name}:{line_number}: {error}"),
            Self::Write(error) => {
                write!(f, "cannot write the output: {error} (hint: is the disk full?)")
            }
        }
    }
}

impl std::error::Error for TraceError {}
