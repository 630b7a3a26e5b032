//! The directory for data: of one server at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::output::Failure;

const LOCK_FILE: &str = "lock";
const SNAPSHOT_FILE: &str = "counters.snapshot";

/// A directory that no other server has. It is given back when this is dropped, or the process ends however it ends.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Takes it, and makes it if there is none.
    pub fn lock(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |doing: &str, error: std::io::Error| {
            Failure::usage(format!(
                "cannot {doing} in data_dir `{shown}`: {error} (hint: name a directory that this user can write to)"
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| failed("make a directory", error))?;
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
                let whose = if owner.is_empty() { String::new() } else { format!(", process {owner},") };
                return Err(Failure::usage(format!(
                    "data_dir `{shown}` is in use: another server{whose} keeps its counters there (hint: stop it, or \
                     name another directory by --data-dir)"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock the file `lock`", error)),
        }
        // Only for the message above.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Where the snapshot is.
    pub fn snapshot_path(&self) -> PathBuf {
        // As it was when the directory was made: the process may go elsewhere, its files do not.
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()).join(SNAPSHOT_FILE)
    }
}
