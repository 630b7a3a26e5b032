//! Why a certificate cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a certificate, its key or the authority of clients cannot be used. Says which file, what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    path: PathBuf,
    problem: String,
    hint: &'static str,
}

impl TlsError {
    pub(super) fn new(path: &Path, problem: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), hint }
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {} (hint: {})", self.path.display(), self.problem, self.hint)
    }
}

impl std::error::Error for TlsError {}
