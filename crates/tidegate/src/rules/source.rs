//! Files that may change.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::load::{InputFile, load_files, read_files};
use super::{LoadedRules, Report};

/// Rules files and directories of them, looked at again whenever somebody asks.
///
/// There is no thread, no clock and no notification in it: whoever holds it calls [`poll`](Self::poll) as often as
/// changes have to be seen. Every call reads every file and compares what is in them, not what the file system says
/// about them. So it sees an edit of the same length within the same tick of the file system's clock, and files that
/// change by a link, as those of a Kubernetes ConfigMap do.
///
/// The bytes that are compared are the bytes that are parsed: nothing can change in between.
///
/// A file should be replaced by a rename. One that is written in place may be seen half written. Mostly that is
/// [`Broken`](Polled::Broken), and the next call sees the rest; but of a file that is cut right behind a rule nobody
/// can tell that there is more to come.
///
/// ```
/// use tidegate::rules::{Polled, Source};
/// # let directory = std::env::temp_dir().join(format!("tidegate-doc-source-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory).unwrap();
/// # let path = directory.join("api.yaml");
///
/// std::fs::write(&path, "domain: api\nrules: [ { name: all, limit: 5 per second } ]").unwrap();
/// let mut source = Source::new([path.clone()]);
/// assert!(matches!(source.poll(), Polled::Changed(loaded) if loaded.domains.len() == 1));
/// assert!(matches!(source.poll(), Polled::Unchanged));
///
/// std::fs::write(&path, "domain: api\nrules: [ { name: all, limit: 5 per sekond } ]").unwrap();
/// assert!(matches!(source.poll(), Polled::Broken(report) if report.errors() == 1));
/// assert!(matches!(source.poll(), Polled::Unchanged));
/// # std::fs::remove_dir_all(&directory).unwrap();
/// ```
#[derive(Debug)]
pub struct Source {
    paths: Vec<PathBuf>,
    /// Nobody can make files that look alike to it.
    hash_key: [u64; 2],
    /// What there was when somebody asked last.
    last_fingerprint: Option<Fingerprint>,
}

/// What became of files since somebody asked last.
#[derive(Clone, Debug)]
pub enum SourceUpdate {
    /// Nothing. If they were broken then, they are so still.
    Unchanged,
    /// They are others, and can be used. Also, when files were broken and are again as they were before: so whoever
    /// holds the last good ones learns that this is over.
    Changed(LoadedRules),
    /// They are others, and cannot be used: this is what is wrong with them. It is said once. Whoever holds the last
    /// good ones goes on with them.
    Invalid(Report),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint(u128);

impl Source {
    /// The rules of these files and directories, by the order and the names that [`load`](super::load) goes by. Nothing
    /// is read yet: the first [`poll`](Self::poll) does.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let random = RandomState::new();
        let key = [random.hash_one(1), random.hash_one(2)];
        Self { paths: paths.into_iter().collect(), hash_key: key, last_fingerprint: None }
    }

    /// The files and directories.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the files, and says whether they are others than when this was called last. The first time they are.
    pub fn poll(&mut self) -> SourceUpdate {
        let files = read_files(&self.paths);
        let now = self.fingerprint(&files);
        if self.last_fingerprint.replace(now) == Some(now) {
            return SourceUpdate::Unchanged;
        }
        match load_files(&files) {
            Ok(loaded) => SourceUpdate::Changed(loaded),
            Err(report) => SourceUpdate::Invalid(report),
        }
    }

    /// Of the names and all that is in the files, or why that could not be read.
    fn fingerprint(&self, files: &[InputFile]) -> Fingerprint {
        let mut hasher = SipHasher24::new_with_keys(self.hash_key[0], self.hash_key[1]);
        // With its length before it, no part can run into the next.
        let mut add = |bytes: &[u8]| {
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        };
        for InputFile { name, content } in files {
            add(name.as_bytes());
            match content {
                Ok(bytes) => {
                    add(b"read");
                    add(bytes);
                }
                Err(unread) => {
                    add(b"unread");
                    add(unread.message.as_bytes());
                }
            }
        }
        Fingerprint(hasher.finish128().as_u128())
    }
}
