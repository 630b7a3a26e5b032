//! The disk below the store: free space, a directory for the run, and the system's page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, statvfs};

use crate::Bytes;

/// The free space of a disk.
pub(super) struct DiskSpace {
    directory: PathBuf,
    free_bytes: u64,
}

impl DiskSpace {
    pub(super) fn of(directory: &Path) -> Result<Self, String> {
        let disk = statvfs(directory).map_err(|error| {
            format!("{}: {error} (hint: name an existing directory with --directory)", directory.display())
        })?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        Ok(Self { directory: directory.to_owned(), free_bytes })
    }

    pub(super) fn check(&self, needed_bytes: u64) -> Result<String, String> {
        let (directory, free, needed) =
            (self.directory.display(), Bytes(self.free_bytes), Bytes(needed_bytes));
        if self.free_bytes < needed_bytes {
            return Err(format!(
                "this needs up to {needed} in {directory}, and {free} are free (hint: use fewer --entries, or another \
                 --directory)"
            ));
        }
        Ok(format!("This needs up to {needed} in {directory}; {free} are free."))
    }
}

/// A directory for the store, removed when this is dropped.
pub(super) struct StoreDir(PathBuf);

impl StoreDir {
    pub(super) fn new(parent: &Path) -> Result<Self, String> {
        let path = parent.join(format!("tidegate-lab-config-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            format!("cannot create {}: {error} (hint: choose another --directory)", path.display())
        })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All files below a directory.
pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        match path.is_dir() {
            true => all.extend(files(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

/// Tells the system to forget the pages of all files, so that the next read goes to the disk. Below a virtual machine, the host
/// may still have them in its memory.
pub(super) fn drop_page_cache(directory: &Path) -> Result<(), String> {
    for path in files(directory)? {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::open(&path).map_err(failed)?;
        // Dirty pages are not dropped.
        file.sync_all().map_err(failed)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}
