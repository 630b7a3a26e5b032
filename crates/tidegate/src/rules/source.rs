//! Rules files that may change.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::load::{InputFile, load_files, parse_all, read_files};
use super::{LoadOptions, LoadedRules, Report, RulesText};

/// Rules files and directories that may change, read again on every [`poll`](Self::poll).
///
/// It has no thread, no clock and no notification: call [`poll`](Self::poll) as often as changes must be
/// seen. Every call reads every file and compares the content, not the file system's metadata. So it sees an
/// edit of the same length within the same tick of the file system's clock, and files that change by a link,
/// as those of a Kubernetes ConfigMap do.
///
/// The bytes that are compared are the bytes that are parsed: nothing can change in between.
///
/// Replace a file by a rename. A file that is written in place may be read half written. Usually it is then
/// [`Invalid`](SourceUpdate::Invalid), and the next call sees the rest. But a file that is cut right after a
/// rule looks complete.
///
/// ```
/// use tidegate::rules::{Source, SourceUpdate};
/// # let directory = std::env::temp_dir().join(format!("tidegate-doc-source-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let path = directory.join("api.yaml");
///
/// std::fs::write(&path, "domain: api\nrules: [ { name: all, limit: 5 per second } ]").unwrap();
/// let mut source = Source::new([path.clone()]);
/// assert!(matches!(source.poll(), SourceUpdate::Changed(loaded) if loaded.domains.len() == 1));
/// assert!(matches!(source.poll(), SourceUpdate::Unchanged));
///
/// std::fs::write(&path, "domain: api\nrules: [ { name: all, limit: 5 per sekond } ]").unwrap();
/// assert!(matches!(source.poll(), SourceUpdate::Invalid(report) if report.errors() == 1));
/// assert!(matches!(source.poll(), SourceUpdate::Unchanged));
/// # std::fs::remove_dir_all(&directory).unwrap();
/// ```
#[derive(Debug)]
pub struct Source {
    origin: Origin,
    options: LoadOptions,
    /// Random, so that no one can craft files with the same fingerprint.
    hash_key: [u64; 2],
    /// The fingerprint at the last poll.
    last_fingerprint: Option<Fingerprint>,
}

/// Files in memory that another part of the program replaces, for a [`Source`].
#[derive(Debug, Default)]
pub struct SharedFiles(ArcSwap<Vec<RulesText>>);

/// Where the files are.
#[derive(Debug)]
enum Origin {
    Paths(Vec<PathBuf>),
    Shared(Arc<SharedFiles>),
}

/// What changed since the last poll.
#[derive(Clone, Debug)]
pub enum SourceUpdate {
    /// Nothing. If the files were invalid then, they still are.
    Unchanged,
    /// The files have changed and have no errors. Also returned when invalid files are again as they were
    /// before, so that the caller learns that the problem is over.
    Changed(LoadedRules),
    /// The files have changed and have errors, which are reported once. Keep using the last valid rules.
    Invalid(Report),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u128);

impl Source {
    /// The rules of these files and directories, in the order of [`load`](fn@super::load). Nothing is read
    /// before the first [`poll`](Self::poll).
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::of(Origin::Paths(paths.into_iter().collect()))
    }

    /// The rules of files in memory. Without files there are no rules.
    pub fn shared(files: Arc<SharedFiles>) -> Self {
        Self::of(Origin::Shared(files))
    }

    fn of(origin: Origin) -> Self {
        let random = RandomState::new();
        let hash_key = [random.hash_one(1), random.hash_one(2)];
        Self { origin, options: LoadOptions::default(), hash_key, last_fingerprint: None }
    }

    /// Loads the files with options.
    #[must_use]
    pub fn with_options(self, options: LoadOptions) -> Self {
        Self { options, ..self }
    }

    /// Reads the files, and returns whether they changed since the last call. The first call always returns a
    /// change.
    pub fn poll(&mut self) -> SourceUpdate {
        let loaded = match &self.origin {
            Origin::Paths(paths) => {
                let input = read_files(paths, self.options);
                let now = self.fingerprint(&input.files);
                if self.last_fingerprint.replace(now) == Some(now) {
                    return SourceUpdate::Unchanged;
                }
                load_files(&input, self.options)
            }
            Origin::Shared(shared) => {
                let files = shared.0.load_full();
                let now = self.text_fingerprint(&files);
                if self.last_fingerprint.replace(now) == Some(now) {
                    return SourceUpdate::Unchanged;
                }
                parse_all(&files, self.options)
            }
        };
        match loaded {
            Ok(loaded) => SourceUpdate::Changed(loaded),
            Err(report) => SourceUpdate::Invalid(report),
        }
    }

    /// The fingerprint of the names and the content of all files, or of the errors of reading them.
    fn fingerprint(&self, files: &[InputFile]) -> Fingerprint {
        self.fingerprint_of(files.iter().map(|InputFile { name, content }| match content {
            Ok(bytes) => [name.as_bytes(), b"read", bytes],
            Err(error) => [name.as_bytes(), b"unread", error.message.as_bytes()],
        }))
    }

    fn text_fingerprint(&self, files: &[RulesText]) -> Fingerprint {
        self.fingerprint_of(files.iter().map(|file| [file.name.as_bytes(), b"read", file.text.as_bytes()]))
    }

    fn fingerprint_of<'a>(&self, files: impl Iterator<Item = [&'a [u8]; 3]>) -> Fingerprint {
        let mut hasher = SipHasher24::new_with_keys(self.hash_key[0], self.hash_key[1]);
        for part in files.flatten() {
            // The length comes first, so that no part can run into the next.
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        Fingerprint(hasher.finish128().as_u128())
    }
}

impl SharedFiles {
    /// These files.
    pub fn new(files: Vec<RulesText>) -> Self {
        Self(ArcSwap::from_pointee(files))
    }

    /// Replaces all files. The next poll of the source sees them.
    pub fn replace(&self, files: Vec<RulesText>) {
        self.0.store(Arc::new(files));
    }
}
