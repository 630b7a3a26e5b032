//! Finds and reads the files of some paths.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::FileId;
use super::diagnostic::Diagnostic;
use super::load::{BYTES_MAX, FILES_MAX};
use super::yaml::FILE_BYTES_MAX;

/// A file that was read, or the error.
pub(crate) struct InputFile {
    pub name: String,
    /// Of a file that is too large, only enough bytes to show that.
    pub content: Result<Vec<u8>, Box<Diagnostic>>,
}

/// Reads the files of these paths: each file, and the files of each directory by name.
///
/// Kubernetes replaces all files of a ConfigMap at once, by a link. If that happens during the read, all
/// files are read again, so that they are of one version.
pub(crate) fn read_files(paths: &[PathBuf]) -> Vec<InputFile> {
    read_consistently(|| FileReader::read_paths(paths)).files
}

/// Reads until no link changed during the read. Gives up if links change all the time; the next call sees the
/// rest.
fn read_consistently(mut read: impl FnMut() -> FileReader) -> FileReader {
    const ATTEMPTS_MAX: usize = 3;
    let mut reader = read();
    for _ in 1..ATTEMPTS_MAX {
        if reader.is_consistent() {
            break;
        }
        reader = read();
    }
    reader
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
        let mut reader = Self::default();
        paths.iter().for_each(|path| reader.add_path(path));
        reader
    }

    fn is_consistent(&self) -> bool {
        self.link_targets
            .iter()
            .all(|(path, target)| fs::canonicalize(path).is_ok_and(|target_now| target_now == *target))
    }

    /// Adds a file, or the files of a directory.
    fn add_path(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => self.add_directory(path),
            Ok(metadata) if metadata.is_file() => self.add_file(path),
            Ok(_) => self.add_error(path, "not-a-file", "it is neither a file nor a directory".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.add_error(path, "no-such-file", "there is no such file or directory".to_owned());
            }
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be accessed: {error}")),
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
            Ok(metadata) if metadata.is_file() => self.add_file(path),
            // A subdirectory may have any name. The target of a link must exist.
            Ok(_) => {}
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be accessed: {error}")),
        }
    }

    fn add_file(&mut self, path: &Path) {
        let too_many =
            (self.files.len() >= FILES_MAX).then(|| format!("there are more than {FILES_MAX} files"));
        let too_large =
            || (self.bytes > BYTES_MAX).then(|| format!("all files have more than {BYTES_MAX} bytes"));
        if let Some(message) = too_many.or_else(too_large) {
            // Only the first file beyond the bounds is reported.
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
            "not-a-file" => "name a file or a directory",
            "empty-directory" => "rules files are named *.yaml or *.yml",
            TOO_MANY_FILES => "put the rules into fewer and smaller files",
            _ => "check the path and its permissions",
        };
        let diagnostic = Diagnostic::file_error(code, FileId(0), message).hint(hint);
        self.files.push(InputFile { name: path.to_string_lossy().into(), content: Err(diagnostic.into()) });
    }
}

const TOO_MANY_FILES: &str = "too-many-files";

/// The paths with the name of a rules file, by name. Hidden files are ignored: Kubernetes keeps the files of
/// a ConfigMap in `..data` and links to them.
fn rules_files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let is_rules_file =
            path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_rules_file && !is_hidden {
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
        let directory = std::env::temp_dir().join(format!("tidegate-swapped-{}", std::process::id()));
        for version in ["..1", "..2"] {
            fs::create_dir_all(directory.join(version)).unwrap();
            fs::write(directory.join(version).join("a.yaml"), version).unwrap();
        }
        symlink("..1", directory.join("..data")).unwrap();
        symlink("..data/a.yaml", directory.join("a.yaml")).unwrap();
        let mut times = 0;
        let reader = read_consistently(|| {
            times += 1;
            let reader = FileReader::read_paths(std::slice::from_ref(&directory));
            if times == 1 {
                symlink("..2", directory.join("..new")).unwrap();
                fs::rename(directory.join("..new"), directory.join("..data")).unwrap();
            }
            reader
        });
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(times, 2);
        assert_eq!(reader.files[0].content.as_deref().unwrap(), b"..2");
    }
}
