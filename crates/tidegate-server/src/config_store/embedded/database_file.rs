//! The file: opens it, and opens it again after a disk error.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::{fmt, io};

use redb::{Builder, Database, ReadTransaction, ReadableDatabase as _, WriteTransaction};
use rustix::fs::OFlags;
use tidegate::config::ConfigStoreError;

use super::error::{closed_error, foreign_error, io_error, panic_error, store_error};
use super::transaction::{Content, content, create_tables};
use crate::regular_file;

/// Opens the database in the file. Tests use it to put a disk that fails below the database.
pub(super) type OpenDatabase = Box<dyn Fn() -> Result<Database, redb::Error> + Send + Sync>;

/// A database, closed after a disk error until it can be opened again.
pub(super) struct DatabaseFile {
    path: PathBuf,
    open_database: OpenDatabase,
    slot: RwLock<Slot>,
}

struct Slot {
    /// `None` after a disk error.
    database: Option<Database>,
    /// How often it was opened. A late error of an earlier one does not close the current one.
    times_opened: u64,
}

impl DatabaseFile {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path, cache_bytes: usize) -> Result<Self, ConfigStoreError> {
        let file_path = path.to_owned();
        let open_database = move || {
            let file = open_file(&file_path)?;
            Ok(Builder::new().set_cache_size(cache_bytes).create_file(file)?)
        };
        let opened = Self::open_with(path, Box::new(open_database))?;
        // Without this, a power failure may lose the name of a new file.
        sync_directory(path).map_err(|error| io_error(path, &error))?;
        Ok(opened)
    }

    pub(super) fn open_with(path: &Path, open_database: OpenDatabase) -> Result<Self, ConfigStoreError> {
        let slot = RwLock::new(Slot { database: None, times_opened: 0 });
        let file = Self { path: path.to_owned(), open_database, slot };
        file.open_if_closed()?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the database if a disk error closed it.
    pub(super) fn open_if_closed(&self) -> Result<(), ConfigStoreError> {
        if self.slot.read().unwrap_or_else(PoisonError::into_inner).database.is_some() {
            return Ok(());
        }
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        if slot.database.is_some() {
            return Ok(());
        }
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let database = (self.open_database)()?;
            let content = prepare(&database)?;
            Ok((database, content))
        }));
        match opened {
            Ok(Ok((database, Content::Config | Content::Nothing))) => {
                *slot = Slot { database: Some(database), times_opened: slot.times_opened + 1 };
                Ok(())
            }
            Ok(Ok((_, Content::Foreign))) => {
                Err(foreign_error(&self.path, "is a redb file of another program"))
            }
            Ok(Ok((_, Content::UnknownFormat(format)))) => {
                let problem = format!("has the unknown format {format}; a newer version wrote it");
                Err(foreign_error(&self.path, &problem))
            }
            Ok(Err(error)) => Err(store_error(&self.path, error)),
            Err(_) => Err(panic_error(&self.path)),
        }
    }

    /// Reads from the last commit.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, ConfigStoreError> {
        self.call(|database| read(&database.begin_read()?))
    }

    /// Runs a transaction. `write` commits it.
    pub(super) fn write<T>(
        &self,
        write: impl FnOnce(WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, ConfigStoreError> {
        self.call(|database| write(begin_write(database)?))
    }

    /// Calls redb, which may panic for a damaged file.
    fn call<T>(&self, call: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, ConfigStoreError> {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let Some(database) = &slot.database else { return Err(closed_error(&self.path)) };
        let result = catch_unwind(AssertUnwindSafe(|| call(database)));
        let times_opened = slot.times_opened;
        drop(slot);
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if refuses_more_calls(&error) {
                    self.close(times_opened);
                }
                Err(store_error(&self.path, error))
            }
            Err(_) => {
                self.close(times_opened);
                Err(panic_error(&self.path))
            }
        }
    }

    /// Closes the database if it is still the same.
    fn close(&self, times_opened: u64) {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        if slot.times_opened == times_opened {
            let database = slot.database.take();
            // Closing writes to the file. Nothing is lost if that fails: the next opening repairs the file.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
        }
    }
}

/// Whether redb refuses all further calls until the file is opened again.
fn refuses_more_calls(error: &redb::Error) -> bool {
    matches!(
        error,
        redb::Error::Io(_)
            | redb::Error::PreviousIo
            | redb::Error::DatabaseClosed
            | redb::Error::LockPoisoned(_)
    )
}

impl fmt::Debug for DatabaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn begin_write(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut writing = database.begin_write()?;
    // Without it, opening after a crash reads the whole file.
    writing.set_quick_repair(true);
    Ok(writing)
}

/// Creates the tables of a new file.
fn prepare(database: &Database) -> Result<Content, redb::Error> {
    let writing = begin_write(database)?;
    let content = content(&writing)?;
    if content == Content::Nothing {
        create_tables(&writing)?;
        writing.commit()?;
    } else {
        writing.abort()?;
    }
    Ok(content)
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // A link would lead to a file outside the data directory.
    regular_file::open_with(&mut options, OFlags::NOFOLLOW | OFlags::NONBLOCK, path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}
