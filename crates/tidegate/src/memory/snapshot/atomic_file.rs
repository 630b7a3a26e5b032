//! A file that replaces another one atomically.
//!
//! It is written under a temporary name in the same directory, synced to disk and renamed over the other. Then the
//! directory is synced too. A process that is killed meanwhile leaves the other file as it was, and a temporary file
//! that the next attempt overwrites.
//!
//! The temporary file is locked while it is written. If two processes have the same path by mistake, or because one
//! starts while the other stops, the second gets an error instead of writing into the file of the first.
//!
//! Only a regular file is written to, and only after a check that it has that name: a link under the temporary name
//! could lead to any file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::SnapshotProblem;

/// How often the temporary file is opened again because another process just renamed it.
const OPEN_ATTEMPTS_MAX: u32 = 8;
/// The owner may read and write.
#[cfg(unix)]
const OWNER_MODE: u32 = 0o600;
/// The permission bits of group and others.
#[cfg(unix)]
const GROUP_AND_OTHER_MODE: u32 = 0o077;

/// The replacement of a file, while it is written.
pub(super) struct AtomicFile<'a> {
    target: &'a Path,
    directory: &'a Path,
    temporary: PathBuf,
}

impl<'a> AtomicFile<'a> {
    /// Splits the path, and checks it.
    pub(super) fn new(target: &'a Path) -> Result<Self, SnapshotProblem> {
        let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(SnapshotProblem::NoFileName);
        };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        if !directory.is_dir() {
            return Err(SnapshotProblem::NoDirectory);
        }
        if target.is_dir() {
            return Err(SnapshotProblem::NotAFile);
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(".tmp");
        Ok(Self { target, directory, temporary: directory.join(temporary) })
    }

    /// An empty temporary file, which only this process writes.
    pub(super) fn open(&self) -> Result<File, SnapshotProblem> {
        for _ in 0..OPEN_ATTEMPTS_MAX {
            // Check before it is opened: opening a pipe blocks, and a link may lead to a file that does not exist yet.
            if fs::symlink_metadata(&self.temporary).is_ok_and(|metadata| !metadata.is_file()) {
                return Err(SnapshotProblem::TemporaryNotAFile(self.temporary.clone()));
            }
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(false);
            // The file has the seed: a user who can read it could construct keys that share a counter.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_MODE);
            let file =
                options.open(&self.temporary).map_err(SnapshotProblem::io("create the temporary file of"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(SnapshotProblem::BeingWritten),
                // Not every file system can lock.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => {
                    return Err(SnapshotProblem::io("lock the temporary file of")(error));
                }
            }
            // Before the lock, another process may have finished this file and renamed it: then it is a snapshot.
            if is_same_file(&file, &self.temporary) {
                restrict_to_owner(&file).map_err(SnapshotProblem::io("restrict the temporary file of"))?;
                file.set_len(0).map_err(SnapshotProblem::io("truncate the temporary file of"))?;
                return Ok(file);
            }
        }
        Err(SnapshotProblem::BeingWritten)
    }

    /// Removes a temporary file that was not finished, because it may be what fills the disk.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.temporary);
    }

    /// Renames the complete file over the other. It is on disk when this returns.
    pub(super) fn commit(&self, file: &File) -> Result<(), SnapshotProblem> {
        file.sync_all().map_err(SnapshotProblem::io("sync the temporary file of"))?;
        fs::rename(&self.temporary, self.target)
            .map_err(SnapshotProblem::io("rename the temporary file to"))?;
        sync_directory(self.directory).map_err(SnapshotProblem::io("sync the directory of"))
    }
}

/// Removes the permissions of group and others, which a file that already existed may have.
#[cfg(unix)]
fn restrict_to_owner(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // Some file systems cannot change permissions, so change them only if necessary.
    if file.metadata()?.permissions().mode() & GROUP_AND_OTHER_MODE == 0 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(OWNER_MODE))
}

/// On other systems, the file has the permissions of its directory.
#[cfg(not(unix))]
fn restrict_to_owner(_: &File) -> io::Result<()> {
    Ok(())
}

/// Whether the open file is the one with this name, and not reached by a link.
#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// On other systems an open file cannot be renamed, so there is nothing to check.
#[cfg(not(unix))]
fn is_same_file(_: &File, _: &Path) -> bool {
    true
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// On other systems a directory cannot be opened. The system decides how durable a rename is.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
