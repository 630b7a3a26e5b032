//! Rules from the config store: reads them at the start, and follows their changes.
//!
//! A copy of the rules in force is kept in the data directory, if there is one. A node that starts while the config store is
//! away, or after it lost its data, uses it.
//!
//! No command deletes all rules. So a config store that has no rules any more has lost its data, and the known rules stay.

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Timestamp;
use tidegate::config::ConfigStore;
use tidegate::rules::{SharedFiles, Source};
use tidegate::stored_rules::{LayeredRules, PushError, RulesHistory, RulesStore};
use tokio::sync::Mutex;

use crate::output::Failure;
use crate::regular_file;

/// The largest copy that is read: emergency rules come on top of the rules, and JSON escapes line breaks.
const COPY_BYTES_MAX: u64 = 256 << 20;
/// How long the start waits for the config store.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the start pauses before it asks again.
const START_RETRY: Duration = Duration::from_millis(500);

/// The rules of a node that has them from the config store.
#[derive(Debug)]
pub struct StoredRules {
    store: RulesStore,
    files: Arc<SharedFiles>,
    copy_path: Option<PathBuf>,
    known: Mutex<KnownRules>,
}

/// What was read last.
#[derive(Debug, Default)]
struct KnownRules {
    /// Empty if nothing was pushed, or if the rules come from a copy. Versions alone do not tell two histories apart: a
    /// store that lost its data may use them again.
    history: RulesHistory,
    rules: Arc<LayeredRules>,
    copy: CopyState,
    /// The revisions whose files were given to the engine.
    revisions: Vec<u64>,
}

/// Whether the copy has the rules that were read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CopyState {
    /// It has them, or there are none.
    #[default]
    Current,
    /// This node has not accepted them yet.
    Undecided,
    /// It could not be written.
    Failed,
}

/// Why rules could not be read.
#[derive(Clone, Debug)]
pub enum RulesFault {
    /// The config store has no rules, but this node knows some.
    Lost,
    /// The config store does not answer, or what it has is damaged.
    Unreadable(PushError),
}

/// What a look at the config store has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// The files are the same.
    Unchanged,
    /// There are other files: reload the rules.
    Changed,
}

impl StoredRules {
    /// Reads the rules. If the config store does not answer, uses the copy. Without one, it is an error.
    pub async fn start(
        config: Arc<dyn ConfigStore>,
        copy_path: Option<PathBuf>,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let stored = Self {
            store: RulesStore::new(config),
            files: Arc::default(),
            copy_path,
            known: Mutex::default(),
        };
        let fault = match stored.first_refresh(now).await {
            Ok(()) if !stored.known.lock().await.rules.layers.is_empty() => return Ok(stored),
            // Emergency rules that have ended leave a history without rules.
            Ok(()) if stored.known.lock().await.history.version().is_some() => return Ok(stored),
            Ok(()) if !stored.has_copy() => {
                tracing::warn!(
                    "the config store has no rules yet, so no request is limited (hint: tidegate rules push RULES)"
                );
                return Ok(stored);
            }
            Ok(()) => RulesFault::Lost,
            Err(fault) => fault,
        };
        let Some(path) = &stored.copy_path else {
            return Err(Failure::usage(format!(
                "cannot read the rules: {fault} (hint: with --data-dir a node keeps a copy, and starts without the config \
                 store)"
            )));
        };
        let copy = read_copy(path).map_err(|problem| {
            let hint = match fault {
                RulesFault::Lost => "remove the copy to start without rules, then push them",
                RulesFault::Unreadable(_) => "start again when the config store answers",
            };
            let path = path.display();
            Failure::usage(format!(
                "cannot read the rules: {fault}; and their copy `{path}` cannot be used: {problem} (hint: {hint})"
            ))
        })?;
        tracing::warn!("cannot read the rules: {fault}; using the copy `{}`", path.display());
        let mut known = stored.known.lock().await;
        // Not of this history: so the next look takes what the store has.
        known.history = RulesHistory::default();
        known.rules = Arc::new(copy);
        stored.give_files(&mut known, now);
        drop(known);
        Ok(stored)
    }

    /// A source of the files for a reloader.
    pub fn source(&self) -> Source {
        Source::shared(Arc::clone(&self.files))
    }

    /// Looks whether other rules are in force: after a push, or because emergency rules have expired. After an error, the last
    /// known rules stay in force, and their emergency rules expire nevertheless.
    pub async fn refresh(&self, now: Timestamp) -> (Refreshed, Result<(), RulesFault>) {
        let mut known = self.known.lock().await;
        let read = self.read(&mut known, now).await;
        let is_read = matches!(read, Ok(Refreshed::Changed));
        let expired = known.rules.revisions(now) != known.revisions;
        if !is_read && !expired {
            return (Refreshed::Unchanged, read.map(|_| ()));
        }
        self.give_files(&mut known, now);
        (Refreshed::Changed, read.map(|_| ()))
    }

    /// Asks until the config store answers, or the time is over.
    async fn first_refresh(&self, now: Timestamp) -> Result<(), RulesFault> {
        let attempts = START_TIMEOUT.as_millis() / START_RETRY.as_millis();
        let mut result = self.refresh(now).await.1;
        for _ in 1..attempts {
            // Only a store that does not answer may do so later. With a copy, the node need not wait for it.
            if !matches!(result, Err(RulesFault::Unreadable(PushError::Store(_)))) || self.has_copy() {
                break;
            }
            tokio::time::sleep(START_RETRY).await;
            result = self.refresh(now).await.1;
        }
        result
    }

    fn has_copy(&self) -> bool {
        self.copy_path.as_deref().is_some_and(Path::exists)
    }

    /// Reads the rules, if the history has changed.
    async fn read(&self, known: &mut KnownRules, now: Timestamp) -> Result<Refreshed, RulesFault> {
        let history = self.store.history().await?;
        if history.version().is_none() && !known.rules.layers.is_empty() {
            return Err(RulesFault::Lost);
        }
        if history == known.history {
            return Ok(Refreshed::Unchanged);
        }
        known.rules = Arc::new(self.store.layered(&history, now).await?);
        known.history = history;
        known.copy = CopyState::Undecided;
        Ok(Refreshed::Changed)
    }

    /// Keeps a copy of the rules. Call it when this node has accepted them: rules of a newer version may have errors for it.
    pub async fn keep_copy(&self) {
        let mut known = self.known.lock().await;
        if known.copy == CopyState::Undecided {
            self.write_copy(&mut known).await;
        }
    }

    /// Writes the copy again that could not be written.
    pub async fn retry_copy(&self) {
        let mut known = self.known.lock().await;
        if known.copy == CopyState::Failed {
            self.write_copy(&mut known).await;
        }
    }

    async fn write_copy(&self, known: &mut KnownRules) {
        let Some(path) = self.copy_path.clone() else { return };
        let rules = Arc::clone(&known.rules);
        // It waits for the disk.
        let written = tokio::task::spawn_blocking(move || write_copy(&path, &rules)).await;
        let before = known.copy;
        known.copy = match written.map_err(io::Error::other).and_then(|written| written) {
            Ok(()) => CopyState::Current,
            Err(error) => {
                if before != CopyState::Failed {
                    tracing::error!(
                        "cannot write a copy of the rules to `{}`: {error}; trying again every second (hint: without it, this \
                         node cannot start while the config store is away)",
                        self.copy_path.as_deref().unwrap_or(Path::new("")).display()
                    );
                }
                CopyState::Failed
            }
        };
    }

    fn give_files(&self, known: &mut KnownRules, now: Timestamp) {
        known.revisions = known.rules.revisions(now);
        self.files.replace(known.rules.files(now));
    }
}

impl fmt::Display for RulesFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str(
                "the config store has lost the rules (hint: `tidegate rules push` stores them again; Redis needs \
                 `appendonly yes` to keep them over a restart)",
            ),
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

impl<E: Into<PushError>> From<E> for RulesFault {
    fn from(error: E) -> Self {
        Self::Unreadable(error.into())
    }
}

/// Writes a copy, so that a crash leaves the old one or the new one.
fn write_copy(path: &Path, rules: &LayeredRules) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs::File::create(&temporary)?;
    file.write_all(&rules.to_copy())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn read_copy(path: &Path) -> Result<LayeredRules, String> {
    let mut bytes = Vec::new();
    let file = regular_file::open(path).map_err(|error| error.to_string())?;
    file.take(COPY_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    LayeredRules::from_copy(&bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tidegate::config::{ConfigWrite, MemoryConfigStore, Scan, WriteCondition};
    use tidegate::rules::{Report, RulesText};
    use tidegate::stored_rules::{EditContext, RulesEdit};

    use super::*;

    /// A node with a config store in memory and a copy.
    struct Fixture {
        directory: PathBuf,
        config: Arc<MemoryConfigStore>,
    }

    const NOW: Timestamp = Timestamp::from_nanos(1);

    impl Fixture {
        fn new(name: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("tidegate-rules-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            Self { directory, config: Arc::new(MemoryConfigStore::bounded(1 << 20)) }
        }

        fn copy_path(&self) -> PathBuf {
            self.directory.join("copy.json")
        }

        fn copy(&self) -> String {
            fs::read_to_string(self.copy_path()).unwrap_or_default()
        }

        async fn start(&self) -> Result<StoredRules, Failure> {
            StoredRules::start(Arc::clone(&self.config) as _, Some(self.copy_path()), NOW).await
        }

        async fn push(&self, text: &str) {
            self.edit(RulesEdit::Push(files(text))).await;
        }

        async fn edit(&self, edit: RulesEdit) {
            let any = |_: &[RulesText]| Ok::<(), Report>(());
            let store = RulesStore::new(Arc::clone(&self.config) as _);
            store.edit(&edit, &EditContext::default(), NOW, any).await.unwrap();
        }

        /// Deletes all that the store has.
        async fn lose_all(&self) {
            let scan = Scan { prefix: "", after: None, entries_max: 1_000 };
            for entry in self.config.scan(scan).await.unwrap().entries {
                let write = ConfigWrite { key: entry.key, value: None, condition: WriteCondition::Always };
                self.config.write(&[write]).await.unwrap();
            }
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.directory).unwrap();
        }
    }

    fn files(text: &str) -> Vec<RulesText> {
        vec![RulesText { name: "a.yaml".into(), text: text.into() }]
    }

    /// The text of the only file in force.
    async fn active(stored: &StoredRules) -> Option<String> {
        let files = stored.known.lock().await.rules.files(NOW);
        files.first().map(|file| file.text.to_string())
    }

    /// A newer version may push rules that this one refuses. They must not replace the last good copy.
    #[tokio::test]
    async fn the_copy_has_rules_that_were_accepted() {
        let fixture = Fixture::new("accepted");
        fixture.push("first").await;
        let stored = fixture.start().await.unwrap();
        assert!(!fixture.copy_path().exists());
        stored.keep_copy().await;
        assert!(fixture.copy().contains("first"), "{}", fixture.copy());
        fixture.push("second").await;
        assert_eq!(stored.refresh(NOW).await.0, Refreshed::Changed);
        stored.retry_copy().await;
        assert!(fixture.copy().contains("first"), "the rules may still be refused: {}", fixture.copy());
        stored.keep_copy().await;
        assert!(fixture.copy().contains("second"), "{}", fixture.copy());
    }

    /// Redis without a file restarts empty. That must not remove all limits.
    #[tokio::test]
    async fn a_store_that_lost_its_data_changes_no_rules() {
        let fixture = Fixture::new("lost");
        fixture.push("first").await;
        let stored = fixture.start().await.unwrap();
        stored.keep_copy().await;
        fixture.lose_all().await;
        for _ in 0..2 {
            let (refreshed, read) = stored.refresh(NOW).await;
            assert!(refreshed == Refreshed::Unchanged && matches!(read, Err(RulesFault::Lost)), "{read:?}");
            stored.keep_copy().await;
            assert_eq!(active(&stored).await.as_deref(), Some("first"));
            assert!(fixture.copy().contains("first"), "{}", fixture.copy());
        }
        let restarted = fixture.start().await.unwrap();
        assert_eq!(active(&restarted).await.as_deref(), Some("first"));
        fixture.push("second").await;
        for stored in [&stored, &restarted] {
            let (refreshed, read) = stored.refresh(NOW).await;
            assert!(refreshed == Refreshed::Changed && read.is_ok(), "{read:?}");
            assert_eq!(active(stored).await.as_deref(), Some("second"));
        }
    }

    /// A history whose rules have all ended is not lost, whatever the copy has.
    #[tokio::test]
    async fn ended_emergency_rules_stay_ended_after_a_restart() {
        let fixture = Fixture::new("ended");
        let expires_at = Timestamp::from_nanos(u64::MAX);
        fixture.edit(RulesEdit::Emergency { files: files("first"), expires_at }).await;
        let stored = fixture.start().await.unwrap();
        stored.keep_copy().await;
        assert!(fixture.copy().contains("first"), "{}", fixture.copy());
        fixture.edit(RulesEdit::End { revision: 1 }).await;
        let restarted = fixture.start().await.unwrap();
        assert_eq!(active(&restarted).await, None);
    }

    /// Without its rules, a node would limit nothing.
    #[tokio::test]
    async fn an_empty_store_and_a_damaged_copy_are_refused() {
        let fixture = Fixture::new("damaged");
        fs::write(fixture.copy_path(), "{").unwrap();
        let error = format!("{:?}", fixture.start().await.unwrap_err());
        assert!(error.contains("remove the copy"), "{error}");
    }

    #[tokio::test]
    async fn a_copy_that_could_not_be_written_is_written_later() {
        let fixture = Fixture::new("unwritable");
        fixture.push("first").await;
        let stored = fixture.start().await.unwrap();
        let in_the_way = fixture.copy_path().with_extension("tmp");
        fs::create_dir(&in_the_way).unwrap();
        stored.keep_copy().await;
        stored.retry_copy().await;
        assert!(!fixture.copy_path().exists());
        fs::remove_dir(&in_the_way).unwrap();
        stored.retry_copy().await;
        assert!(fixture.copy().contains("first"), "{}", fixture.copy());
    }
}
