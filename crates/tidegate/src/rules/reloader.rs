//! Keeps the active rules up to date with their files.

use tidegate_core::rules::RulesetError;

use super::diagnostic::Diagnostic;
use super::{Report, Source, SourceUpdate};
use crate::store::Store;
use crate::{Clock, Engine};

/// An engine and the files of its rules. Call [`reload`](Self::reload) from time to time.
#[derive(Debug)]
pub struct Reloader<C, S> {
    engine: Engine<C, S>,
    source: Source,
}

/// What happened to the active rules.
#[derive(Clone, Debug)]
pub enum Reload {
    /// Nothing: the files have not changed.
    Unchanged,
    /// The files have changed, and their rules are active now. There may be warnings.
    Replaced(Report),
    /// The files have changed but have errors. The previous rules stay active.
    Rejected(Report),
}

impl<C: Clock, S: Store> Reloader<C, S> {
    /// Keeps the rules of an engine up to date with files. If the source was polled before, its last result
    /// counts as active.
    pub fn new(engine: Engine<C, S>, source: Source) -> Self {
        Self { engine, source }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine<C, S> {
        &self.engine
    }

    /// Reads the files, and activates their rules if they changed and have no errors. No counter is reset.
    pub fn reload(&mut self) -> Reload {
        match self.source.poll() {
            SourceUpdate::Unchanged => Reload::Unchanged,
            SourceUpdate::Invalid(report) => Reload::Rejected(report),
            SourceUpdate::Changed(loaded) => match self.engine.replace(loaded.domains) {
                Ok(()) => Reload::Replaced(loaded.report),
                Err(error) => Reload::Rejected(error.into()),
            },
        }
    }
}

/// The report for rules that were read but do not fit together. The loader checks the same with better
/// messages.
impl From<RulesetError> for Report {
    fn from(error: RulesetError) -> Self {
        let mut report = Self::default();
        let file = report.add_source("all files together", "");
        report.push(Diagnostic::file_error("rules-do-not-fit", file, error.to_string()));
        report
    }
}
