//! A file that takes the place of another one whole or not at all.
//!
//! It is written under a temporary name in the same directory, brought to the disk, renamed over the other, and
//! then the directory is brought to the disk as well. Whoever is killed on the way leaves the other file as it
//! was, and a temporary one that the next attempt overwrites.
//!
//! The temporary file is locked while it is written. Of two processes that were given one path by mistake, or
//! because one starts while the other stops, the second is turned away instead of writing into the first one's
//! file.
//!
//! Nothing but a regular file is written to, and not before it is known to be the one of that name: behind a link
//! that somebody left under the temporary name there may be any file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::SnapshotProblem;

/// How often the temporary file is opened again because another process just renamed it.
const OPEN_ATTEMPTS_MAX: u32 = 8;
/// The owner reads and writes it.
#[cfg(unix)]
const OWNER_MODE: u32 = 0o600;
/// What nobody else may do with it.
#[cfg(unix)]
const GROUP_AND_OTHER_MODE: u32 = 0o077;

/// A file in the making.
pub(super) struct AtomicFile<'a> {
    target: &'a Path,
    directory: &'a Path,
    temporary: PathBuf,
}

impl<'a> AtomicFile<'a> {
    /// Takes the path apart.
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

    /// An empty temporary file, for this process alone.
    pub(super) fn open(&self) -> Result<File, SnapshotProblem> {
        for _ in 0..OPEN_ATTEMPTS_MAX {
            // Before it is opened, too: whoever opens a pipe waits, and a link may lead to what does not exist yet.
            if fs::symlink_metadata(&self.temporary).is_ok_and(|about| !about.is_file()) {
                return Err(SnapshotProblem::TemporaryNotAFile(self.temporary.clone()));
            }
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(false);
            // With the seed in it, anybody who can read it can make up keys that share a counter.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_MODE);
            let file = options.open(&self.temporary).map_err(SnapshotProblem::io("create the temporary file of"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(SnapshotProblem::BeingWritten),
                // Not every file system can lock.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => {
                    return Err(SnapshotProblem::io("lock the temporary file of")(error));
                }
            }
            // Before it was locked, another process may have finished it and renamed it: then it is a snapshot.
            if is_same_file(&file, &self.temporary) {
                restrict_to_owner(&file).map_err(SnapshotProblem::io("keep from others the temporary file of"))?;
                file.set_len(0).map_err(SnapshotProblem::io("empty the temporary file of"))?;
                return Ok(file);
            }
        }
        Err(SnapshotProblem::BeingWritten)
    }

    /// Removes the temporary file, which did not get finished: it may be what fills the disk.
    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.temporary);
    }

    /// Puts the file, which is complete, in place of the other. The disk has it when this returns.
    pub(super) fn commit(&self, file: &File) -> Result<(), SnapshotProblem> {
        file.sync_all().map_err(SnapshotProblem::io("bring to the disk the temporary file of"))?;
        fs::rename(&self.temporary, self.target).map_err(SnapshotProblem::io("rename the temporary file to"))?;
        sync_directory(self.directory).map_err(SnapshotProblem::io("bring to the disk the directory of"))
    }
}

/// A file that was there already has the permissions that somebody gave it.
#[cfg(unix)]
fn restrict_to_owner(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // Not every file system can change them, so they are left alone if they will do.
    if file.metadata()?.permissions().mode() & GROUP_AND_OTHER_MODE == 0 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(OWNER_MODE))
}

/// Elsewhere it has those of its directory.
#[cfg(not(unix))]
fn keep_from_others(_: &File) -> io::Result<()> {
    Ok(())
}

/// Whether the file is the one that has this name now, and no link leads to it.
#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// Where an open file cannot be renamed there is nothing to find out.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Elsewhere a directory cannot be opened, and a rename is as lasting as the system makes it.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
