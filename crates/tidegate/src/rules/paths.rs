//! Finds and reads the files of some paths.
//!
//! Of a directory, the files named `*.yaml` and `*.yml` are read. If none of them has native rules, the directory is for
//! envoyproxy/ratelimit, which reads every file at any depth. So the files in subdirectories, those with other names and
//! those whose names begin with a dot are read too if they have `descriptors`. What is not read is listed.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::diagnostic::{Diagnostic, SkippedFile};
use super::file_kind::FileKind;
use super::load::{BYTES_MAX, FILES_MAX};
use super::yaml::FILE_BYTES_MAX;
use super::{FileId, LoadOptions};
use crate::regular_file;

/// Directories are nested this deep at most.
const DIRECTORY_DEPTH_MAX: usize = 16;
/// Names in one directory at most.
const DIRECTORY_ENTRIES_MAX: usize = 65_536;
/// The field `descriptors` is within the first bytes of a file whose name is not that of a rules file.
const KIND_BYTES_MAX: u64 = 64 << 10;

/// A file that was read, or the error.
pub(crate) struct InputFile {
    pub name: String,
    /// Of a file that is too large, only enough bytes to show that.
    pub content: Result<Vec<u8>, Box<Diagnostic>>,
}

/// The files of some paths.
#[derive(Default)]
pub(crate) struct InputFiles {
    pub files: Vec<InputFile>,
    /// What the directories contain besides.
    pub skipped: Vec<SkippedFile>,
}

/// Reads the files of these paths: each file, and the files of each directory by name.
///
/// Kubernetes replaces all files of a ConfigMap at once, by a link. If that happens during the read, all
/// files are read again, so that they are of one version.
pub(crate) fn read_files(paths: &[PathBuf], options: LoadOptions) -> InputFiles {
    read_consistently(|| FileReader::read_paths(paths, Some(options))).input
}

/// Reads files of tests: the files of these paths, of directories only those named `*.yaml` and `*.yml` without rules.
pub(crate) fn read_yaml_files(paths: &[PathBuf]) -> Vec<InputFile> {
    read_consistently(|| FileReader::read_paths(paths, None)).input.files
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
    input: InputFiles,
    /// `None` reads only `*.yaml` and `*.yml`, and lists nothing.
    options: Option<LoadOptions>,
    /// Where the path of each file led to when it was read.
    link_targets: Vec<(PathBuf, PathBuf)>,
    bytes: usize,
}

impl FileReader {
    fn read_paths(paths: &[PathBuf], options: Option<LoadOptions>) -> Self {
        let mut reader = Self { options, ..Self::default() };
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
        let Some(entries) = self.list(path) else { return };
        let before = self.input.files.len();
        let (rules_files, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.is_rules_file() && !entry.is_hidden());
        let (rules_files, broken): (Vec<_>, Vec<_>) =
            rules_files.into_iter().partition(|entry| matches!(entry.kind, EntryKind::File));
        rules_files.iter().for_each(|entry| self.add_rules_file(entry));
        let is_native = |file: &InputFile| {
            file.content.as_ref().is_ok_and(|content| FileKind::of(content) == FileKind::Native)
        };
        let has_native = self.input.files[before..].iter().any(is_native);
        for entry in broken.into_iter().chain(others) {
            match self.options {
                Some(options) if !has_native => self.add_entry(&entry, options, 1),
                _ => self.skip_native(&entry),
            }
        }
        if self.input.files.len() == before {
            let files = if self.options.is_some() { "rules files" } else { "files of tests" };
            self.add_error(path, "empty-directory", format!("the directory has no {files}"));
        }
    }

    /// Adds a file with the name of a rules file, unless it has tests where rules are read, or rules where tests are read.
    fn add_rules_file(&mut self, entry: &DirectoryEntry) {
        self.add_file(&entry.path);
        let reads_rules = self.options.is_some();
        let is_of_other_kind = |file: &mut InputFile| {
            file.content.as_ref().is_ok_and(|content| match FileKind::of(content) {
                FileKind::Tests => reads_rules,
                FileKind::Native | FileKind::Envoy => !reads_rules,
                FileKind::Other => false,
            })
        };
        if self.input.files.pop_if(is_of_other_kind).is_some() && reads_rules {
            self.skip(entry, TESTS_REASON);
        }
    }

    /// What a directory of native rules contains besides.
    fn skip_native(&mut self, entry: &DirectoryEntry) {
        match &entry.kind {
            // The target of a link must exist.
            EntryKind::Broken(error) if entry.is_rules_file() && !entry.is_hidden() => {
                self.add_error(&entry.path, "unreadable", format!("it cannot be accessed: {error}"));
            }
            EntryKind::Special if entry.has_rules_name() && !entry.is_hidden() => {
                self.add_error(&entry.path, "not-a-file", NOT_REGULAR.to_owned());
            }
            EntryKind::Directory | EntryKind::LinkToDirectory => {
                self.skip(entry, "subdirectories are not read");
            }
            _ if entry.is_hidden() => self.skip(entry, "its name begins with a dot"),
            _ => self.skip(entry, "rules files are named *.yaml or *.yml"),
        }
    }

    /// Adds what envoyproxy/ratelimit reads of a directory besides `*.yaml` and `*.yml`.
    fn add_entry(&mut self, entry: &DirectoryEntry, options: LoadOptions, depth: usize) {
        if entry.name.starts_with("..") {
            return self.skip(entry, "its name begins with two dots");
        }
        if entry.is_hidden() && options.ignore_dotfiles {
            return self.skip(entry, "its name begins with a dot");
        }
        match &entry.kind {
            EntryKind::Directory if entry.name == ".git" => self.skip(entry, "it has no rules"),
            EntryKind::Directory if depth == DIRECTORY_DEPTH_MAX => {
                self.skip(entry, "the directories are nested too deep");
            }
            EntryKind::Directory => {
                let entries = self.list(&entry.path).unwrap_or_default();
                entries.iter().for_each(|entry| self.add_entry(entry, options, depth + 1));
            }
            EntryKind::LinkToDirectory => self.skip(entry, "links to directories are not followed"),
            EntryKind::File => self.add_file_by_kind(entry),
            EntryKind::Special if entry.has_rules_name() => {
                self.add_error(&entry.path, "not-a-file", NOT_REGULAR.to_owned());
            }
            EntryKind::Special => self.skip(entry, "it is neither a file nor a directory"),
            EntryKind::Broken(error) if entry.is_rules_file() => {
                self.add_error(&entry.path, "unreadable", format!("it cannot be accessed: {error}"));
            }
            EntryKind::Broken(error) => self.skip(entry, &format!("it cannot be accessed: {error}")),
        }
    }

    /// Adds a file that has `descriptors`. A file with the name of a rules file may have errors instead.
    fn add_file_by_kind(&mut self, entry: &DirectoryEntry) {
        match (read_bytes(&entry.path, KIND_BYTES_MAX), entry.is_rules_file()) {
            (Err(_), true) => self.add_file(&entry.path),
            (Err(error), false) => self.skip(entry, &format!("it cannot be read: {error}")),
            (Ok(bytes), is_rules_file) => match (FileKind::of(&bytes), is_rules_file) {
                (FileKind::Envoy, _) | (FileKind::Other, true) => self.add_file(&entry.path),
                (FileKind::Native, _) => {
                    self.skip(entry, "native rules are read from *.yaml and *.yml of the directory itself");
                }
                (FileKind::Tests, _) => self.skip(entry, TESTS_REASON),
                (FileKind::Other, false) => self.skip(entry, "it has no `descriptors`"),
            },
        }
    }

    /// The names in a directory, sorted. Adds an error if they cannot be listed.
    fn list(&mut self, path: &Path) -> Option<Vec<DirectoryEntry>> {
        match list_directory(path) {
            Ok(entries) if entries.len() > DIRECTORY_ENTRIES_MAX => {
                let message = format!("the directory has more than {DIRECTORY_ENTRIES_MAX} files");
                self.add_error(path, TOO_MANY_FILES, message);
                None
            }
            Ok(entries) => Some(entries),
            Err(error) => {
                self.add_error(path, "unreadable", format!("it cannot be listed: {error}"));
                None
            }
        }
    }

    fn skip(&mut self, entry: &DirectoryEntry, reason: &str) {
        let path = entry.path.to_string_lossy().into();
        self.input.skipped.push(SkippedFile { path, reason: reason.to_owned() });
    }

    fn add_file(&mut self, path: &Path) {
        let too_many =
            (self.input.files.len() >= FILES_MAX).then(|| format!("there are more than {FILES_MAX} files"));
        let too_large =
            || (self.bytes > BYTES_MAX).then(|| format!("all files have more than {BYTES_MAX} bytes"));
        if let Some(message) = too_many.or_else(too_large) {
            // Only the first file beyond the bounds is reported.
            if !matches!(self.input.files.last(), Some(InputFile { content: Err(last), .. }) if last.code == TOO_MANY_FILES)
            {
                self.add_error(path, TOO_MANY_FILES, message);
            }
            return;
        }
        match self.read(path) {
            Ok(content) => {
                self.bytes += content.len();
                self.input
                    .files
                    .push(InputFile { name: path.to_string_lossy().into(), content: Ok(content) });
            }
            Err(error) => self.add_error(path, "unreadable", format!("it cannot be read: {error}")),
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.link_targets.push((path.to_owned(), fs::canonicalize(path)?));
        read_bytes(path, FILE_BYTES_MAX as u64 + 1)
    }

    fn add_error(&mut self, path: &Path, code: &'static str, message: String) {
        let hint = match code {
            "no-such-file" => "check the path",
            "not-a-file" => "use a regular file or a directory",
            "empty-directory" if self.options.is_none() => {
                "files of tests are named *.yaml or *.yml, and have `tests`"
            }
            "empty-directory" => "rules files are named *.yaml or *.yml, or have `descriptors`",
            TOO_MANY_FILES => "put the rules into fewer and smaller files",
            _ => "check the path and its permissions",
        };
        let diagnostic = Diagnostic::file_error(code, FileId(0), message).hint(hint);
        self.input
            .files
            .push(InputFile { name: path.to_string_lossy().into(), content: Err(diagnostic.into()) });
    }
}

/// Why a pipe, a socket or a device with the name of a rules file is an error.
const NOT_REGULAR: &str = "it is not a regular file";

/// Why a file with tests is not loaded.
const TESTS_REASON: &str = "it has tests of rules, which `tidegate check --tests` runs";

const TOO_MANY_FILES: &str = "too-many-files";

/// A name in a directory.
struct DirectoryEntry {
    path: PathBuf,
    name: String,
    kind: EntryKind,
}

enum EntryKind {
    /// A file, or a link to one.
    File,
    Directory,
    LinkToDirectory,
    Special,
    /// It cannot be accessed.
    Broken(io::Error),
}

impl DirectoryEntry {
    fn new(entry: &fs::DirEntry) -> Self {
        let path = entry.path();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let kind = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => EntryKind::File,
            Ok(metadata) if metadata.is_dir() && is_link => EntryKind::LinkToDirectory,
            Ok(metadata) if metadata.is_dir() => EntryKind::Directory,
            Ok(_) => EntryKind::Special,
            Err(error) => EntryKind::Broken(error),
        };
        Self { name: entry.file_name().to_string_lossy().into(), path, kind }
    }

    fn is_hidden(&self) -> bool {
        self.name.starts_with('.')
    }

    fn is_rules_file(&self) -> bool {
        !matches!(self.kind, EntryKind::Directory | EntryKind::LinkToDirectory | EntryKind::Special)
            && self.has_rules_name()
    }

    fn has_rules_name(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
    }

    /// Kubernetes keeps the files of a ConfigMap in directories whose names begin with two dots, and links to them.
    fn is_of_config_map(&self) -> bool {
        self.name.starts_with("..")
            && matches!(self.kind, EntryKind::Directory | EntryKind::LinkToDirectory | EntryKind::Broken(_))
    }
}

/// The names in a directory, sorted, up to the first one over the maximum. Without the directories of a ConfigMap.
fn list_directory(directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = DirectoryEntry::new(&entry?);
        if !entry.is_of_config_map() {
            entries.push(entry);
        }
        if entries.len() > DIRECTORY_ENTRIES_MAX {
            break;
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

fn read_bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular_file::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
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
            let reader = FileReader::read_paths(std::slice::from_ref(&directory), None);
            if times == 1 {
                symlink("..2", directory.join("..new")).unwrap();
                fs::rename(directory.join("..new"), directory.join("..data")).unwrap();
            }
            reader
        });
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(times, 2);
        assert_eq!(reader.input.files[0].content.as_deref().unwrap(), b"..2");
    }
}
