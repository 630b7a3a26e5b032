//! Why a snapshot was not written or not restored.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::format::FORMAT_VERSION;

/// Why a snapshot was not written or not restored: what was wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotError {
    path: PathBuf,
    problem: SnapshotProblem,
    refused_file: Option<RefusedFile>,
}

/// What was wrong, without the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SnapshotProblem {
    NoFileName,
    NoDirectory,
    NotAFile,
    TemporaryNotAFile(PathBuf),
    Io { operation: &'static str, error: String },
    BeingWritten,
    NotASnapshot,
    NewerVersion(u32),
    HashMismatch,
    Truncated { at_byte: u64 },
    Damaged { at_byte: u64, what: &'static str },
    NoThread(String),
    Panicked,
}

/// Where a refused file is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefusedFile {
    /// A snapshot would not replace it, so it stays.
    LeftInPlace,
    MovedTo(PathBuf),
    NotMoved {
        to: PathBuf,
        error: String,
    },
}

impl SnapshotError {
    pub(super) fn new(path: &Path, problem: SnapshotProblem) -> Self {
        Self { path: path.to_owned(), problem, refused_file: None }
    }

    pub(super) fn with_refused_file(self, refused_file: RefusedFile) -> Self {
        Self { refused_file: Some(refused_file), ..self }
    }

    /// The path of the snapshot.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is a snapshot that is damaged or truncated.
    pub fn is_damaged(&self) -> bool {
        matches!(self.problem, SnapshotProblem::Truncated { .. } | SnapshotProblem::Damaged { .. })
    }

    /// Whether the format is newer than this build supports.
    pub fn is_newer_version(&self) -> bool {
        matches!(self.problem, SnapshotProblem::NewerVersion(_))
    }

    /// Whether another process is writing the same snapshot now.
    pub fn is_being_written(&self) -> bool {
        matches!(self.problem, SnapshotProblem::BeingWritten)
    }

    /// Where the file is now, if it was refused and moved aside.
    pub fn moved_to(&self) -> Option<&Path> {
        match &self.refused_file {
            Some(RefusedFile::MovedTo(aside)) => Some(aside),
            _ => None,
        }
    }
}

impl SnapshotProblem {
    /// The problem of an operation on a file that failed.
    pub(super) fn io(operation: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { operation, error: error.to_string() }
    }

    /// What to do if a restore failed. It differs only for a file that could not be read.
    fn hint_for(&self, refused_file: &RefusedFile) -> &'static str {
        match (self, refused_file) {
            (Self::Io { .. }, RefusedFile::MovedTo(_)) => {
                "the file may be intact: check the disk, the permissions and the limit of open files, then stop the \
                 program, move the file back and start again"
            }
            (Self::Io { .. }, RefusedFile::LeftInPlace | RefusedFile::NotMoved { .. }) => {
                "the file may be intact: stop the program, keep a copy, check the disk, the permissions and the limit \
                 of open files, and start again"
            }
            _ => self.hint(),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NoFileName => "name a file in a directory that exists",
            Self::NoDirectory => "create the directory",
            Self::NotAFile => "name a regular file, or a path that does not exist yet",
            Self::TemporaryNotAFile(_) => {
                "remove it, and name a path in a directory that only this user can write to"
            }
            Self::Io { .. } => {
                "check the disk, its free space and the permissions of the file and its directory"
            }
            Self::BeingWritten => "give every process its own path",
            Self::NotASnapshot => "check the path",
            Self::NewerVersion(_) => "start the version that wrote it, or continue without it",
            Self::HashMismatch => "start the build that wrote it, or continue without it",
            Self::Truncated { .. } | Self::Damaged { .. } => {
                "restore a backup of it if there is one, and check the disk"
            }
            Self::NoThread(_) => "raise the limit of threads of this process",
            Self::Panicked => "this is a bug in Tidegate; please report it with what the thread printed",
        }
    }
}

impl fmt::Display for SnapshotProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFileName => f.write_str("the path does not name a file"),
            Self::NoDirectory => f.write_str("its directory does not exist"),
            Self::NotAFile => f.write_str("it is a directory or a device, not a regular file"),
            Self::TemporaryNotAFile(path) => {
                write!(f, "its temporary file `{}` is a link, a directory or a device", path.display())
            }
            Self::Io { operation, error } => write!(f, "cannot {operation} it: {error}"),
            Self::BeingWritten => f.write_str("another process is writing it"),
            Self::NotASnapshot => f.write_str("it does not start with the magic bytes of a snapshot"),
            Self::NewerVersion(version) => write!(
                f,
                "its format is version {version}, newer than version {FORMAT_VERSION} that this build knows"
            ),
            Self::HashMismatch => f.write_str("it was written by a build with a different hash of keys"),
            Self::Truncated { at_byte } => write!(f, "it is truncated: it ends at byte {at_byte}"),
            Self::Damaged { at_byte, what } => write!(f, "it is damaged at byte {at_byte}: {what}"),
            Self::Panicked => f.write_str("the thread that writes it panicked"),
            Self::NoThread(error) => write!(f, "cannot start the thread that writes it: {error}"),
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem, refused_file } = self;
        let path = path.display();
        let Some(refused_file) = refused_file else {
            let hint = problem.hint();
            return write!(f, "snapshot `{path}` was not written: {problem} (hint: {hint})");
        };
        write!(f, "snapshot `{path}` is refused: {problem}; the store starts empty")?;
        match refused_file {
            RefusedFile::LeftInPlace => {}
            RefusedFile::MovedTo(aside) => write!(f, "; the file was moved to `{}`", aside.display())?,
            RefusedFile::NotMoved { to, error } => write!(
                f,
                "; the file could not be moved to `{}` ({error}), so the next snapshot replaces it",
                to.display()
            )?,
        }
        write!(f, " (hint: {})", problem.hint_for(refused_file))
    }
}

impl std::error::Error for SnapshotError {}
