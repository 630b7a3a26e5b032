//! Errors of redb as errors of a config store, with hints.

use std::io::{self, ErrorKind};
use std::path::Path;

use tidegate::config::ConfigStoreError;

const DAMAGED_HINT: &str =
    "hint: move the file away, start the server, and import your export of the overrides";

/// What a failed call on the file means for the caller.
pub(super) fn store_error(path: &Path, error: redb::Error) -> ConfigStoreError {
    let file = path.display();
    match error {
        redb::Error::Io(error) => io_error(path, &error),
        redb::Error::DatabaseAlreadyOpen => ConfigStoreError::Unavailable(
            format!(
                "another process uses `{file}` (hint: stop that server, or choose another directory with --data-dir)"
            )
            .into(),
        ),
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => closed_error(path),
        redb::Error::Corrupted(problem) => {
            ConfigStoreError::Broken(format!("`{file}` is damaged: {problem} ({DAMAGED_HINT})").into())
        }
        redb::Error::UpgradeRequired(version) => ConfigStoreError::Broken(
            format!("`{file}` has version {version} of redb's format, which this server cannot read ({DAMAGED_HINT})")
                .into(),
        ),
        other => ConfigStoreError::Broken(format!("`{file}`: {other} ({DAMAGED_HINT})").into()),
    }
}

pub(super) fn io_error(path: &Path, error: &io::Error) -> ConfigStoreError {
    let file = path.display();
    match error.kind() {
        ErrorKind::StorageFull => ConfigStoreError::Full(
            format!("the disk of `{file}` is full (hint: free space on it, then try again)").into(),
        ),
        ErrorKind::QuotaExceeded => ConfigStoreError::Full(
            format!("the disk quota of `{file}` is used up (hint: raise the quota, then try again)").into(),
        ),
        ErrorKind::FileTooLarge => ConfigStoreError::Full(
            format!(
                "`{file}` has reached the largest size of a file (hint: raise the limit, see `ulimit -f`)"
            )
            .into(),
        ),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => ConfigStoreError::Broken(
            format!("`{file}` is damaged, or another program wrote it: {error} ({DAMAGED_HINT})").into(),
        ),
        ErrorKind::PermissionDenied => ConfigStoreError::Unavailable(
            format!("`{file}`: {error} (hint: let the user of the server read and write it)").into(),
        ),
        _ => ConfigStoreError::Unavailable(
            format!("`{file}`: {error} (hint: check the disk and the directory)").into(),
        ),
    }
}

/// redb closed the file after a disk error.
#[cold]
pub(super) fn closed_error(path: &Path) -> ConfigStoreError {
    ConfigStoreError::Unavailable(
        format!(
            "`{}` is closed after a disk error (hint: check the disk; the server tries to open the file once a second)",
            path.display()
        )
        .into(),
    )
}

/// redb panicked, which it does for some damaged files.
#[cold]
pub(super) fn panic_error(path: &Path) -> ConfigStoreError {
    let problem = format!("`{}` is damaged: redb panicked ({DAMAGED_HINT})", path.display());
    ConfigStoreError::Broken(problem.into())
}

/// redb wrote a file that does not have our tables, or not in a format of this version.
#[cold]
pub(super) fn foreign_error(path: &Path, problem: &str) -> ConfigStoreError {
    let hint = "hint: use the version of Tidegate that wrote it, or move the file away";
    ConfigStoreError::Broken(format!("`{}` {problem} ({hint})", path.display()).into())
}
