//! Rules in force, kept up with their files.

use tidegate_core::rules::RulesetError;

use super::diagnostic::Diagnostic;
use super::{SourceUpdate, Report, Source};
use crate::store::Store;
use crate::{Clock, Engine};

/// An engine and the files that its rules are from. Whoever holds it calls [`reload`](Self::reload) from time to time.
#[derive(Debug)]
pub struct Reloader<C, S> {
    engine: Engine<C, S>,
    source: Source,
}

/// What became of the rules in force.
#[derive(Clone, Debug)]
pub enum Reload {
    /// Nothing: the files are as they were.
    Unchanged,
    /// The files are others, and what they say is in force. There may be warnings.
    Replaced(Report),
    /// The files are others, and cannot be used, for these reasons: the rules before go on.
    Rejected(Report),
}

impl<C: Clock, S: Store> Reloader<C, S> {
    /// Keeps the rules of an engine up with files. If the source was asked before, what it said then is taken for what
    /// is in force.
    pub fn new(engine: Engine<C, S>, source: Source) -> Self {
        Self { engine, source }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine<C, S> {
        &self.engine
    }

    /// Looks at the files, and puts into force what they say if it changed and can be used. No counter is reset.
    pub fn reload(&mut self) -> Reload {
        match self.source.poll() {
            SourceUpdate::Unchanged => Reload::Unchanged,
            SourceUpdate::Invalid(report) => Reload::Rejected(report),
            SourceUpdate::Changed(loaded) => match self.engine.replace(loaded.domains) {
                Ok(()) => Reload::Replaced(loaded.report),
                Err(error) => Reload::Rejected(ruleset_report(&error)),
            },
        }
    }
}

/// Rules that were read and do not go together. Files are checked for that while they are read, where it can be said
/// better.
fn ruleset_report(error: &RulesetError) -> Report {
    let mut report = Report::default();
    let file = report.add_source("all files together", "");
    report.push(Diagnostic::file_error("rules-do-not-fit", file, error.to_string()));
    report
}
