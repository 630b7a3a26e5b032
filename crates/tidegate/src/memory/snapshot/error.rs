//! Why a snapshot was not written, or not restored.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::format::FORMAT_VERSION;

/// Why a snapshot was not written, or not restored. Says what was wrong, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotError {
    path: PathBuf,
    problem: SnapshotProblem,
    refused_file: Option<RefusedFile>,
}

/// What was wrong, apart from which file it was.
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

/// What became of a file that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefusedFile {
    /// It is nothing that a snapshot would be written over.
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

    pub(super) fn with_refused_file(self, refused: RefusedFile) -> Self {
        Self { refused_file: Some(refused), ..self }
    }

    /// The file it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is a snapshot that is damaged or cut short.
    pub fn is_damaged(&self) -> bool {
        matches!(self.problem, SnapshotProblem::Truncated { .. } | SnapshotProblem::Damaged { .. })
    }

    /// Whether the file was written in a format that this build does not know yet.
    pub fn is_newer_version(&self) -> bool {
        matches!(self.problem, SnapshotProblem::NewerVersion(_))
    }

    /// Whether another process is writing the same snapshot at this moment.
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
    /// What went wrong while `doing` something with a file.
    pub(super) fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { operation: doing, error: error.to_string() }
    }

    /// What to do when a file was to be restored, which is another matter only if it could not be read.
    fn hint_for(&self, refused: &RefusedFile) -> &'static str {
        match (self, refused) {
            (Self::Io { .. }, RefusedFile::MovedTo(_)) => {
                "the file may be sound: check the disk, the permissions and how many files may be open, then stop the \
                 program, move the file back and start again"
            }
            (Self::Io { .. }, RefusedFile::LeftInPlace | RefusedFile::NotMoved { .. }) => {
                "the file may be sound: stop the program, keep a copy, check the disk, the permissions and how many \
                 files may be open, and start again"
            }
            _ => self.hint(),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NoFileName => "name a file in a directory that exists",
            Self::NoDirectory => "create the directory it is to be in",
            Self::NotAFile => "name a regular file, or a path where nothing is yet",
            Self::TemporaryNotAFile(_) => {
                "remove it, and name a path in a directory that nobody else can write to"
            }
            Self::Io { .. } => {
                "check the disk, its free space and the permissions of the file and its directory"
            }
            Self::BeingWritten => "give every process a path of its own",
            Self::NotASnapshot => "check the path",
            Self::NewerVersion(_) => "start the version that wrote it, or do without it",
            Self::HashMismatch => "start the build that wrote it, or do without it",
            Self::Truncated { .. } | Self::Damaged { .. } => {
                "put back a copy of it if there is one, and check the disk"
            }
            Self::NoThread(_) => "raise the number of threads that this process may have",
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
            Self::Io { operation: doing, error } => write!(f, "cannot {doing} it: {error}"),
            Self::BeingWritten => f.write_str("another process is writing it"),
            Self::NotASnapshot => f.write_str("it does not begin as a snapshot does"),
            Self::NewerVersion(version) => write!(
                f,
                "its format is version {version}, newer than version {FORMAT_VERSION} that this build knows"
            ),
            Self::HashMismatch => f.write_str("it was written by a build whose hash of keys differs"),
            Self::Truncated { at_byte } => write!(f, "it is cut short: it ends at byte {at_byte}"),
            Self::Damaged { at_byte, what } => write!(f, "it is damaged at byte {at_byte}: {what}"),
            Self::Panicked => f.write_str("the thread that writes it panicked"),
            Self::NoThread(error) => write!(f, "cannot start the thread that writes it: {error}"),
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem, refused_file: refused } = self;
        let path = path.display();
        let Some(refused) = refused else {
            let hint = problem.hint();
            return write!(f, "snapshot `{path}` was not written: {problem} (hint: {hint})");
        };
        write!(f, "snapshot `{path}` is refused: {problem}; the store starts empty")?;
        match refused {
            RefusedFile::LeftInPlace => {}
            RefusedFile::MovedTo(aside) => write!(f, "; the file was moved to `{}`", aside.display())?,
            RefusedFile::NotMoved { to, error } => write!(
                f,
                "; the file could not be moved to `{}` ({error}), so the next snapshot replaces it",
                to.display()
            )?,
        }
        write!(f, " (hint: {})", problem.hint_for(refused))
    }
}

impl std::error::Error for SnapshotError {}
