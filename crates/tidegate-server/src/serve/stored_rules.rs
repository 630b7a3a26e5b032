//! Rules from the config store: reads them at the start, and follows their changes.
//!
//! A copy of the rules in force is kept in the data directory, if there is one. A node that starts while the config store is
//! away uses it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Timestamp;
use tidegate::config::{ConfigStore, ConfigVersion};
use tidegate::rules::{SharedFiles, Source};
use tidegate::stored_rules::{LayeredRules, PushError, RulesStore};
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
    /// The version of the history. `None` if nothing was pushed, or if the rules come from a copy.
    version: Option<ConfigVersion>,
    rules: LayeredRules,
    /// The version that the copy has.
    copied: Option<ConfigVersion>,
    /// The revisions whose files were given to the engine.
    revisions: Vec<u64>,
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
        let Err(error) = stored.first_refresh(now).await else {
            if stored.known.lock().await.rules.layers.is_empty() {
                tracing::warn!(
                    "the config store has no rules yet, so no request is limited (hint: tidegate rules push RULES)"
                );
            }
            return Ok(stored);
        };
        let Some(path) = &stored.copy_path else {
            return Err(Failure::usage(format!(
                "cannot read the rules: {error} (hint: with --data-dir a node keeps a copy, and starts without the config \
                 store)"
            )));
        };
        let copy = read_copy(path).map_err(|problem| {
            Failure::usage(format!(
                "cannot read the rules: {error}; and their copy `{}` cannot be used: {problem} (hint: start again when the \
                 config store answers)",
                path.display()
            ))
        })?;
        tracing::warn!("cannot read the rules: {error}; using the copy `{}`", path.display());
        let mut known = stored.known.lock().await;
        known.rules = copy;
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
    pub async fn refresh(&self, now: Timestamp) -> (Refreshed, Result<(), PushError>) {
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
    async fn first_refresh(&self, now: Timestamp) -> Result<(), PushError> {
        let attempts = START_TIMEOUT.as_millis() / START_RETRY.as_millis();
        let mut result = self.refresh(now).await.1;
        for _ in 1..attempts {
            // Only a store that does not answer may do so later. With a copy, the node need not wait for it.
            if !matches!(result, Err(PushError::Store(_)))
                || self.copy_path.as_deref().is_some_and(Path::exists)
            {
                break;
            }
            tokio::time::sleep(START_RETRY).await;
            result = self.refresh(now).await.1;
        }
        result
    }

    /// Reads the rules, if the history has changed.
    async fn read(&self, known: &mut KnownRules, now: Timestamp) -> Result<Refreshed, PushError> {
        let history = self.store.history().await?;
        if history.version() == known.version {
            return Ok(Refreshed::Unchanged);
        }
        known.rules = self.store.layered(&history, now).await?;
        known.version = history.version();
        Ok(Refreshed::Changed)
    }

    /// Keeps a copy of the rules. Call it when this node has accepted them: rules of a newer version may have errors for it.
    pub async fn keep_copy(&self) {
        let mut known = self.known.lock().await;
        let Some(path) = self.copy_path.as_deref().filter(|_| known.version != known.copied) else { return };
        match write_copy(path, &known.rules) {
            Ok(()) => known.copied = known.version,
            Err(error) => tracing::error!(
                "cannot write a copy of the rules to `{}`: {error} (hint: without it, this node cannot start while the config \
                 store is away)",
                path.display()
            ),
        }
    }

    fn give_files(&self, known: &mut KnownRules, now: Timestamp) {
        known.revisions = known.rules.revisions(now);
        self.files.replace(known.rules.files(now));
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
    use tidegate::config::MemoryConfigStore;
    use tidegate::rules::{Report, RulesText};
    use tidegate::stored_rules::{EditContext, RulesEdit};

    use super::*;

    /// A newer version may push rules that this one refuses. They must not replace the last good copy.
    #[tokio::test]
    async fn the_copy_has_rules_that_were_accepted() {
        let directory = std::env::temp_dir().join(format!("tidegate-rules-copy-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (copy, now) = (directory.join("copy.json"), Timestamp::from_nanos(1));
        let config: Arc<dyn ConfigStore> = Arc::new(MemoryConfigStore::bounded(1 << 20));
        let store = RulesStore::new(Arc::clone(&config));
        let push = async |text: &str| {
            let edit = RulesEdit::Push(vec![RulesText { name: "a.yaml".into(), text: text.into() }]);
            let any = |_: &[RulesText]| Ok::<(), Report>(());
            store.edit(&edit, &EditContext::default(), now, any).await.unwrap();
        };
        push("first").await;
        let stored = StoredRules::start(config, Some(copy.clone()), now).await.unwrap();
        assert!(!copy.exists());
        stored.keep_copy().await;
        let text = || fs::read_to_string(&copy).unwrap();
        assert!(text().contains("first"), "{}", text());
        push("second").await;
        assert_eq!(stored.refresh(now).await.0, Refreshed::Changed);
        assert!(text().contains("first"), "the rules may still be refused: {}", text());
        stored.keep_copy().await;
        assert!(text().contains("second"), "{}", text());
        fs::remove_dir_all(&directory).unwrap();
    }
}
