//! Which files there are.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::super::FileId;
use super::super::diagnostic::Diagnostic;
use super::super::yaml::FILE_BYTES_MAX;
use super::{FILES_MAX, Loading};

impl Loading {
    /// A file, or the files right in a directory.
    pub(super) fn add_path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(what) if what.is_dir() => self.add_directory(path),
            Ok(what) if what.is_file() => self.add_file(path),
            Ok(_) => self.refuse_path(path, "not-a-file", "it is neither a file nor a directory".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.refuse_path(path, "no-such-file", "there is no such file or directory".to_owned());
            }
            Err(error) => self.refuse_path(path, "unreadable", format!("it cannot be looked at: {error}")),
        }
    }

    fn add_directory(&mut self, path: &Path) {
        match files_in(path) {
            Ok(files) if files.is_empty() => {
                let found =
                    Diagnostic::of_file("empty-directory", FileId(0), "the directory has no rules files");
                self.refuse(&path.to_string_lossy(), found.hint("rules files are named *.yaml or *.yml"));
            }
            Ok(files) => files.iter().for_each(|file| self.add_path_in_directory(file)),
            Err(error) => self.refuse_path(path, "unreadable", format!("it cannot be listed: {error}")),
        }
    }

    fn add_path_in_directory(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(what) if what.is_file() => self.add_file(path),
            // A directory may be called anything; what a link leads to has to be there.
            Ok(_) => {}
            Err(error) => self.refuse_path(path, "unreadable", format!("it cannot be looked at: {error}")),
        }
    }

    fn add_file(&mut self, path: &Path) {
        self.count += 1;
        if self.count > FILES_MAX {
            if self.count == FILES_MAX + 1 {
                self.refuse_path(path, "too-many-files", format!("there are more than {FILES_MAX} files"));
            }
            return;
        }
        match read(path) {
            Ok(bytes) => self.add(&path.to_string_lossy(), &bytes),
            Err(error) => self.refuse_path(path, "unreadable", format!("it cannot be read: {error}")),
        }
    }

    fn refuse_path(&mut self, path: &Path, code: &'static str, message: String) {
        let hint = match code {
            "no-such-file" => "check the path",
            "too-many-files" => "put several domains' rules into fewer files",
            "not-a-file" => "name a file or a directory of them",
            _ => "check the path and its permissions",
        };
        self.refuse(&path.to_string_lossy(), Diagnostic::of_file(code, FileId(0), message).hint(hint));
    }
}

/// No more of a file than shows that it is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What is named like a rules file, by name. What is hidden is not: Kubernetes keeps the files of a ConfigMap in
/// `..data` and links to them.
fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let named = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if named && !hidden {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            break;
        }
    }
    files.sort();
    Ok(files)
}
