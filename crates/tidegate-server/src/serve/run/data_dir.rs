//! The data directory, which only one server may use at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::output::Failure;

const LOCK_FILE: &str = "lock";
const SNAPSHOT_FILE: &str = "counters.snapshot";

/// A locked data directory. The lock ends on drop, or with the process, even if that is killed.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if needed, and locks it.
    pub fn lock(path: &Path) -> Result<Self, Failure> {
        let data_dir = path.display();
        let failed = |action: &str, error: std::io::Error| {
            Failure::usage(format!(
                "cannot {action} in data_dir `{data_dir}`: {error} (hint: use a directory that this user can write to)"
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| failed("create a directory", error))?;
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK_FILE))
            .map_err(|error| failed("open the file `lock`", error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = (&mut lock).take(20).read_to_string(&mut owner);
                let owner = owner.trim();
                let process = if owner.is_empty() { String::new() } else { format!(", process {owner}") };
                return Err(Failure::usage(format!(
                    "data_dir `{data_dir}` is in use by another server{process} (hint: stop that server, or choose \
                     another directory with --data-dir)"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock the file `lock`", error)),
        }
        // The process id is only for the message above.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The path of the snapshot.
    pub fn snapshot_path(&self) -> PathBuf {
        // Absolute, in case the process changes its working directory.
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()).join(SNAPSHOT_FILE)
    }
}
