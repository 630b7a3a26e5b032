//! Which files there are, and what is in them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::super::FileId;
use super::super::diagnostic::Diagnostic;
use super::super::yaml::FILE_BYTES_MAX;
use super::{BYTES_MAX, FILES_MAX};

/// A file that was read, or why it was not.
pub(in super::super) struct InputFile {
    pub name: String,
    /// No more of it than shows that it is too large.
    pub content: Result<Vec<u8>, Box<Diagnostic>>,
}

/// What paths come to now: each file, and of each directory the files right in it, in the order of their names.
///
/// Kubernetes swaps all files of a ConfigMap at once, by a link. If that happens between two of them, they are read
/// again, so that they are all of one version.
pub(in super::super) fn read_files(paths: &[PathBuf]) -> Vec<InputFile> {
    read_consistently(|| FileReader::read_paths(paths)).files
}

/// Reads until every path leads to where it led when its file was read. Where links are swapped all the time, that is
/// given up, and whoever asks again sees the rest.
fn read_consistently(mut read: impl FnMut() -> FileReader) -> FileReader {
    const ATTEMPTS_MAX: usize = 3;
    let mut reading = read();
    for _ in 1..ATTEMPTS_MAX {
        if reading.is_consistent() {
            break;
        }
        reading = read();
    }
    reading
}

#[derive(Default)]
struct FileReader {
    files: Vec<InputFile>,
    /// Where the path of each file led to when it was read.
    link_targets: Vec<(PathBuf, PathBuf)>,
    bytes: usize,
}

impl FileReader {
    fn read_paths(paths: &[PathBuf]) -> Self {
        let mut reading = Self::default();
        paths.iter().for_each(|path| reading.add_path(path));
        reading
    }

    fn is_consistent(&self) -> bool {
        self.link_targets
            .iter()
            .all(|(path, led_to)| fs::canonicalize(path).is_ok_and(|leads_to| leads_to == *led_to))
    }

    /// A file, or the files right in a directory.
    fn add_path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(what) if what.is_dir() => self.add_directory(path),
            Ok(what) if what.is_file() => self.add_file(path),
            Ok(_) => self.add_error(path, "not-a-file", "it is neither a file nor a directory".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.add_error(path, "no-such-file", "there is no such file or directory".to_owned());
            }
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be looked at: {error}")),
        }
    }

    fn add_directory(&mut self, path: &Path) {
        match rules_files_in(path) {
            Ok(files) => {
                let before = self.files.len();
                files.iter().for_each(|file| self.add_path_in_directory(file));
                if self.files.len() == before {
                    self.add_error(path, "empty-directory", "the directory has no rules files".to_owned());
                }
            }
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be listed: {error}")),
        }
    }

    fn add_path_in_directory(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(what) if what.is_file() => self.add_file(path),
            // A directory may be called anything; what a link leads to has to be there.
            Ok(_) => {}
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be looked at: {error}")),
        }
    }

    fn add_file(&mut self, path: &Path) {
        let too_many =
            (self.files.len() >= FILES_MAX).then(|| format!("there are more than {FILES_MAX} files"));
        let too_large =
            || (self.bytes > BYTES_MAX).then(|| format!("all files have more than {BYTES_MAX} bytes"));
        if let Some(message) = too_many.or_else(too_large) {
            // What comes after the first that is too much is not even named.
            if !matches!(self.files.last(), Some(InputFile { content: Err(last), .. }) if last.code == TOO_MANY_FILES)
            {
                self.add_error(path, TOO_MANY_FILES, message);
            }
            return;
        }
        match self.read(path) {
            Ok(content) => {
                self.bytes += content.len();
                self.files.push(InputFile { name: path.to_string_lossy().into(), content: Ok(content) });
            }
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be read: {error}")),
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.link_targets.push((path.to_owned(), fs::canonicalize(path)?));
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn add_error(&mut self, path: &Path, code: &'static str, message: String) {
        let hint = match code {
            "no-such-file" => "check the path",
            "not-a-file" => "name a file or a directory of them",
            "empty-directory" => "rules files are named *.yaml or *.yml",
            TOO_MANY_FILES => "put the rules into fewer and smaller files",
            _ => "check the path and its permissions",
        };
        let found = Diagnostic::file_error(code, FileId(0), message).hint(hint);
        self.files.push(InputFile { name: path.to_string_lossy().into(), content: Err(found.into()) });
    }
}

const TOO_MANY_FILES: &str = "too-many-files";

/// What is named like a rules file, by name. What is hidden is not: Kubernetes keeps the files of a ConfigMap in
/// `..data` and links to them.
fn rules_files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_swapped_during_a_read_are_read_again() {
        let directory = std::env::temp_dir().join(format!("tidegate-settled-{}", std::process::id()));
        for version in ["..1", "..2"] {
            fs::create_dir_all(directory.join(version)).unwrap();
            fs::write(directory.join(version).join("a.yaml"), version).unwrap();
        }
        symlink("..1", directory.join("..data")).unwrap();
        symlink("..data/a.yaml", directory.join("a.yaml")).unwrap();
        let mut times = 0;
        let reading = read_consistently(|| {
            times += 1;
            let reading = FileReader::read_paths(std::slice::from_ref(&directory));
            if times == 1 {
                symlink("..2", directory.join("..new")).unwrap();
                fs::rename(directory.join("..new"), directory.join("..data")).unwrap();
            }
            reading
        });
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(times, 2);
        assert_eq!(reading.files[0].content.as_deref().unwrap(), b"..2");
    }
}
