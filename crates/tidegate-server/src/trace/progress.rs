//! A progress bar, if standard error is a terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, removed on drop.
pub struct Progress {
    bar: ProgressBar,
    visibility: Visibility,
}

/// Whether the bar is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    Terminal,
    Hidden,
}

const TEMPLATE: &str = "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left{msg}";

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn new() -> Self {
        Self::with_visibility(if io::stderr().is_terminal() {
            Visibility::Terminal
        } else {
            Visibility::Hidden
        })
    }

    /// As [`new`](Self::new), for `--decisions`: no bar if the decisions go to the same terminal.
    pub fn beside_decisions() -> Self {
        if io::stdout().is_terminal() { Self::with_visibility(Visibility::Hidden) } else { Self::new() }
    }

    fn with_visibility(visibility: Visibility) -> Self {
        Self { bar: ProgressBar::hidden(), visibility }
    }

    /// Whether the bar is shown. Then its last state stays on the terminal if the process is killed.
    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Shows a text behind the bar.
    pub fn show(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Shows how much of `file` was read. A file without a length, such as a named pipe, has no bar.
    pub fn track(&self, file: File) -> impl Read + use<> {
        if let (Visibility::Terminal, Ok(metadata)) = (self.visibility, file.metadata())
            && metadata.is_file()
        {
            self.bar.set_length(metadata.len());
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
