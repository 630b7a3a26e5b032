//! How far the replay is, for whoever waits in front of a terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, gone when this is dropped.
pub struct Progress {
    bar: ProgressBar,
    shown: Visibility,
}

/// Whether there is somebody to show the bar to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    Terminal,
    Hidden,
}

const TEMPLATE: &str = "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn new() -> Self {
        Self::with_visibility(if io::stderr().is_terminal() { Visibility::Terminal } else { Visibility::Hidden })
    }

    /// As [`new`](Self::new), for a command that writes all the time: no bar where that would run through it.
    pub fn beside_decisions() -> Self {
        if io::stdout().is_terminal() { Self::with_visibility(Visibility::Hidden) } else { Self::new() }
    }

    fn with_visibility(shown: Visibility) -> Self {
        Self { bar: ProgressBar::hidden(), shown }
    }

    /// Shows how much of `file` was read. What has no length, such as a named pipe, has no progress.
    pub fn track(&self, file: File) -> impl Read + use<> {
        if let (Visibility::Terminal, Ok(about)) = (self.shown, file.metadata())
            && about.is_file()
        {
            self.bar.set_length(about.len());
            if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
                self.bar.set_style(style);
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.wrap_read(file)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
