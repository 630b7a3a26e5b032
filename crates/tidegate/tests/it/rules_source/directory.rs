//! A directory for a test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory for one test, removed when it is dropped.
pub struct RulesDirectory(PathBuf);

impl RulesDirectory {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rules-source-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in place.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a new file and renames it over the old one.
    pub fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        let new_path = self.write(".beside", content);
        fs::rename(new_path, self.file(name)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }

    pub fn link(&self, name: &str, target: &str) {
        symlink(target, self.file(name)).unwrap();
    }

    /// Replaces a link by a rename, as Kubernetes does.
    pub fn relink(&self, name: &str, target: &str) {
        self.link("..beside", target);
        fs::rename(self.file("..beside"), self.file(name)).unwrap();
    }
}

impl Drop for RulesDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
