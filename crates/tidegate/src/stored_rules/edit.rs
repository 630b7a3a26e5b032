//! What an operator asks for, and what it makes of the history.

use std::fmt;

use tidegate_core::Timestamp;

use super::bundle::BUNDLE_BYTES_MAX;
use super::history::{Bundle, Revision, RevisionKind, RulesHistory};
use crate::config::{ConfigStoreError, RecordError};
use crate::rules::{FILES_MAX, Report, RulesText};

/// The longest note or author, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// The longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 1_024;

/// A change of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesEdit {
    /// Replaces all rules by those of these files.
    Push(Vec<RulesText>),
    /// Adds the rules of these files until an instant.
    Emergency {
        /// The files.
        files: Vec<RulesText>,
        /// The first instant at which they no longer apply.
        expires_at: Timestamp,
    },
    /// Replaces the rules by those of an earlier revision, or of the one before the current one.
    Rollback {
        /// The number of the earlier revision.
        to: Option<u64>,
    },
    /// Ends emergency rules before they expire.
    End {
        /// The number of their revision.
        revision: u64,
    },
}

/// The operator of a change, and its condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditContext {
    /// The operator.
    pub author: Option<Box<str>>,
    /// Why.
    pub note: Option<Box<str>>,
    /// Only if this is the last revision; 0 means that there is none.
    pub if_revision: Option<u64>,
}

/// Why rules were not changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PushError {
    /// The rules have errors.
    Invalid(Box<Report>),
    /// It cannot work. Carries the reason, with a hint.
    Refused(Box<str>),
    /// There is no such revision. Carries the reason, with a hint.
    NoRevision(Box<str>),
    /// The last revision is not the one that the operator named. Carries its number.
    Conflict(u64),
    /// What is stored cannot be read.
    Record(RecordError),
    /// The config store failed.
    Store(ConfigStoreError),
}

impl RulesEdit {
    /// The files that it brings.
    pub(super) fn files(&self) -> Option<&[RulesText]> {
        match self {
            Self::Push(files) | Self::Emergency { files, .. } => Some(files),
            Self::Rollback { .. } | Self::End { .. } => None,
        }
    }

    /// Refuses what is too large, or has ended already.
    pub(super) fn check(&self, context: &EditContext, now: Timestamp) -> Result<(), PushError> {
        let refused = |text: String| Err(PushError::Refused(text.into()));
        for (field, text) in [("author", &context.author), ("note", &context.note)] {
            if text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
                return refused(format!(
                    "the {field} has more than {TEXT_BYTES_MAX} bytes (hint: make it shorter)"
                ));
            }
        }
        let Some(files) = self.files() else { return Ok(()) };
        if files.is_empty() {
            return refused("there are no files (hint: name rules files or directories)".to_owned());
        }
        if files.len() > FILES_MAX {
            return refused(format!("{} files are too many (hint: at most {FILES_MAX})", files.len()));
        }
        let bytes: usize = files.iter().map(|file| file.name.len() + file.text.len()).sum();
        if bytes > BUNDLE_BYTES_MAX {
            return refused(format!(
                "the files have {bytes} bytes, but at most {BUNDLE_BYTES_MAX} can be stored (hint: put limits of single keys \
                 into overrides)"
            ));
        }
        if let Some(file) = files.iter().find(|file| file.name.is_empty() || file.name.len() > NAME_BYTES_MAX)
        {
            let length = file.name.len();
            return refused(format!(
                "the name of a file has {length} bytes (hint: from 1 to {NAME_BYTES_MAX} are allowed)"
            ));
        }
        match self {
            Self::Emergency { expires_at, .. } if *expires_at <= now => {
                refused("the emergency rules would have expired already (hint: check the time)".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The history after this change. `bundle` has its files.
    pub(super) fn apply(
        &self,
        history: &RulesHistory,
        context: &EditContext,
        bundle: Option<&Bundle>,
        now: Timestamp,
    ) -> Result<RulesHistory, PushError> {
        let last = history.last_number();
        if context.if_revision.is_some_and(|expected| expected != last) {
            return Err(PushError::Conflict(last));
        }
        let mut after = history.clone();
        let added = |kind, bundle: Bundle| Revision {
            number: last + 1,
            kind,
            at: now,
            author: context.author.clone(),
            note: context.note.clone(),
            bundle,
        };
        match self {
            Self::Push(_) => {
                after.revisions.extend(bundle.map(|bundle| added(RevisionKind::Push, bundle.clone())));
            }
            Self::Emergency { expires_at, .. } => {
                let kind = RevisionKind::Emergency { expires_at: *expires_at };
                after.revisions.extend(bundle.map(|bundle| added(kind, bundle.clone())));
            }
            Self::Rollback { to } => {
                let target = rollback_target(history, *to)?;
                let kind = RevisionKind::Rollback { to: target.number };
                after.revisions.push(added(kind, target.bundle.clone()));
            }
            Self::End { revision } => {
                let is_active = history.emergencies(now).any(|one| one.number == *revision);
                let found = after.revisions.iter_mut().find(|one| one.number == *revision && is_active);
                let Some(found) = found else {
                    return Err(PushError::NoRevision(
                        format!(
                            "revision {revision} has no emergency rules in force (hint: `tidegate rules history` lists all \
                             revisions)"
                        )
                        .into(),
                    ));
                };
                found.kind = RevisionKind::Emergency { expires_at: now };
            }
        }
        Ok(after)
    }
}

/// The revision to go back to.
fn rollback_target(history: &RulesHistory, to: Option<u64>) -> Result<&Revision, PushError> {
    let missing = |text: String| PushError::NoRevision(text.into());
    let hint = "hint: `tidegate rules history` lists all revisions";
    match to {
        Some(number) => match history.get(number) {
            Some(revision) if revision.is_emergency() => Err(missing(format!(
                "revision {number} has emergency rules, which come on top of others (hint: push them again)"
            ))),
            Some(revision) => Ok(revision),
            None => Err(missing(format!("there is no revision {number} ({hint})"))),
        },
        None => {
            let current = history.current();
            // After a rollback to 3, the one before it is the one before 3.
            let current = match current.map(|revision| revision.kind) {
                Some(RevisionKind::Rollback { to }) => Some(to),
                _ => current.map(|revision| revision.number),
            };
            let is_earlier = |revision: &&Revision| {
                revision.kind == RevisionKind::Push
                    && current.is_some_and(|current| revision.number < current)
            };
            let earlier = history.revisions.iter().rev().find(is_earlier);
            earlier.ok_or_else(|| missing(format!("there is no earlier revision ({hint})")))
        }
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(report) => write!(f, "the rules have errors:\n{report}"),
            Self::Refused(reason) | Self::NoRevision(reason) => f.write_str(reason),
            Self::Conflict(0) => {
                f.write_str("no rules were pushed yet (hint: use 0 as the expected revision)")
            }
            Self::Conflict(last) => write!(
                f,
                "the last revision is {last}, not the one that was expected (hint: look at the changes, then try again with \
                 {last})"
            ),
            Self::Record(error) => {
                write!(f, "the rules in the config store cannot be used: {error} (hint: update this server)")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PushError {}

impl From<ConfigStoreError> for PushError {
    fn from(error: ConfigStoreError) -> Self {
        Self::Store(error)
    }
}

impl From<RecordError> for PushError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}
