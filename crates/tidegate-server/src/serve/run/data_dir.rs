//! The data directory, which only one server may use at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::startup_warnings::StartupWarning;
use crate::config_store::CONFIG_FILE;
use crate::output::Failure;
use crate::regular_file;

const LOCK_FILE: &str = "lock";
const SNAPSHOT_FILE: &str = "counters.snapshot";
/// A copy of the rules in the config store.
const RULES_COPY_FILE: &str = "rules.copy.json";
/// The longest content of a lock file: a process id and a line break.
const LOCK_BYTES_MAX: u64 = 20;
/// The mode bits that let other users write.
const OTHERS_WRITE: u32 = 0o022;

/// A locked data directory. The lock ends on drop, or with the process, even if that is killed.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if needed, and locks it.
    pub fn lock(path: &Path) -> Result<Self, Failure> {
        let data_dir = path.display();
        let failed = |action: &str, error: io::Error| {
            Failure::usage(format!(
                "cannot {action} in data_dir `{data_dir}`: {error} (hint: use a directory that this user can write to)"
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| failed("create a directory", error))?;
        warn_if_others_write(path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // A link would lead to a file outside the directory.
        let lock =
            regular_file::open_with(&mut options, OFlags::NOFOLLOW | OFlags::NONBLOCK, &path.join(LOCK_FILE));
        let mut lock = lock.map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => foreign_lock_file(path),
            _ => failed("open the file `lock`", error),
        })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let process = match read_owner(&mut lock) {
                    Some(owner) if !owner.is_empty() => format!(", process {owner}"),
                    _ => String::new(),
                };
                return Err(Failure::usage(format!(
                    "data_dir `{data_dir}` is in use by another server{process} (hint: stop that server, or choose \
                     another directory with --data-dir)"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock the file `lock`", error)),
        }
        if read_owner(&mut lock).is_none() {
            return Err(foreign_lock_file(path));
        }
        // The process id is only for the message above.
        let _ = lock
            .rewind()
            .and_then(|()| lock.set_len(0))
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The path of the snapshot.
    pub fn snapshot_path(&self) -> PathBuf {
        self.file_path(SNAPSHOT_FILE)
    }

    /// The path of the config store.
    pub fn config_path(&self) -> PathBuf {
        self.file_path(CONFIG_FILE)
    }

    /// The path of the copy of the rules.
    pub fn rules_copy_path(&self) -> PathBuf {
        self.file_path(RULES_COPY_FILE)
    }

    fn file_path(&self, name: &str) -> PathBuf {
        // Absolute, in case the process changes its working directory.
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()).join(name)
    }
}

/// The process id in a lock file, or nothing if the file is empty. `None` if another program wrote the file.
fn read_owner(lock: &mut File) -> Option<String> {
    let mut owner = String::new();
    lock.take(LOCK_BYTES_MAX + 1).read_to_string(&mut owner).ok()?;
    let digits = owner.strip_suffix('\n').unwrap_or(&owner);
    let is_owner = owner.len() as u64 <= LOCK_BYTES_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_owner.then(|| digits.to_owned())
}

#[cold]
fn foreign_lock_file(path: &Path) -> Failure {
    Failure::usage(format!(
        "the file `{}` is a link, or another program wrote it (hint: remove it, or choose another directory with \
         --data-dir)",
        path.join(LOCK_FILE).display()
    ))
}

/// Other users could replace the snapshot, or read the seed of its hash.
fn warn_if_others_write(path: &Path) {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.mode());
    if mode & OTHERS_WRITE != 0 {
        StartupWarning::DataDirWritable { path: path.to_owned(), mode: mode & 0o777 }.log();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct TestDir(PathBuf);

    impl TestDir {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn error(&self) -> String {
            format!("{:?}", DataDir::lock(&self.0).err().expect("not locked"))
        }
    }

    impl Drop for TestDir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = TestDir::new("lock-link");
        let target = directory.0.join("target");
        fs::write(&target, "precious").unwrap();
        for link_target in [&target, &directory.0.join("missing")] {
            symlink(link_target, directory.0.join(LOCK_FILE)).unwrap();
            let error = directory.error();
            assert!(error.contains("is a link") && error.contains("(hint: "), "{error}");
            fs::remove_file(directory.0.join(LOCK_FILE)).unwrap();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(!directory.0.join("missing").exists());
    }

    #[test]
    fn a_file_of_another_program_is_kept() {
        let directory = TestDir::new("lock-foreign");
        for content in ["precious\n", "1 2", "123456789012345678901"] {
            fs::write(directory.0.join(LOCK_FILE), content).unwrap();
            let error = directory.error();
            assert!(error.contains("another program wrote it"), "{error}");
            assert_eq!(fs::read_to_string(directory.0.join(LOCK_FILE)).unwrap(), content);
        }
    }

    #[test]
    fn an_old_lock_file_is_reused() {
        let directory = TestDir::new("lock-old");
        for content in ["", "4194304000\n", "7"] {
            fs::write(directory.0.join(LOCK_FILE), content).unwrap();
            let _locked = DataDir::lock(&directory.0).unwrap_or_else(|error| panic!("{error:?}"));
            let own = format!("{}\n", std::process::id());
            assert_eq!(fs::read_to_string(directory.0.join(LOCK_FILE)).unwrap(), own);
        }
    }

    #[test]
    fn a_fifo_is_refused() {
        let directory = TestDir::new("lock-fifo");
        let fifo = directory.0.join(LOCK_FILE);
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        assert!(directory.error().contains("lock"));
    }
}
