//! Why a certificate cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a certificate, its key or the CA certificates of clients cannot be used: the file, the problem and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    path: PathBuf,
    problem: String,
    hint: &'static str,
}

impl TlsError {
    pub(crate) fn new(path: &Path, problem: impl Into<String>, hint: &'static str) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), hint }
    }

    /// The file that is invalid.
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
