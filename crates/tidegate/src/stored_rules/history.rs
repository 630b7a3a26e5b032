//! The revisions of the rules, and their record in the config store.

use serde_json::{Map, Value};
use tidegate_core::Timestamp;

use crate::config::{ConfigVersion, Fields, RecordError, encode_record, put};

/// How many revisions the history keeps. Those in force are kept in any case.
pub const REVISIONS_MAX: usize = 50;
const HISTORY_FORMAT: u64 = 1;
/// The key of the history in the config store.
pub(super) const HISTORY_KEY: &str = "r\u{1f}history";

/// The last revisions, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesHistory {
    /// The revisions.
    pub revisions: Vec<Revision>,
    /// The version of the record. `None` if nothing was pushed yet.
    pub(super) version: Option<ConfigVersion>,
}

/// One change of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Counts from 1.
    pub number: u64,
    /// What it does.
    pub kind: RevisionKind,
    /// When it was made.
    pub at: Timestamp,
    /// The operator who made it.
    pub author: Option<Box<str>>,
    /// Why it was made.
    pub note: Option<Box<str>>,
    pub(super) bundle: Bundle,
}

/// What a revision does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionKind {
    /// It replaces the rules.
    Push,
    /// It replaces the rules by those of an earlier revision.
    Rollback {
        /// The number of the earlier revision.
        to: u64,
    },
    /// It adds rules for a while.
    Emergency {
        /// The first instant at which they no longer apply.
        expires_at: Timestamp,
    },
}

/// Where the files of a revision are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bundle {
    /// Its name in keys.
    pub id: Box<str>,
    pub parts: u64,
    /// The checksum of its text.
    pub crc32: u32,
}

impl RulesHistory {
    /// The version of its record. `None` if nothing was pushed yet.
    pub fn version(&self) -> Option<ConfigVersion> {
        self.version
    }

    /// The number of the last revision, or 0.
    pub fn last_number(&self) -> u64 {
        self.revisions.last().map_or(0, |revision| revision.number)
    }

    /// The revision whose rules are in force, without emergency rules.
    pub fn current(&self) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| !revision.is_emergency())
    }

    /// The revisions whose emergency rules are in force.
    pub fn emergencies(&self, now: Timestamp) -> impl Iterator<Item = &Revision> {
        self.revisions.iter().filter(move |revision| revision.expires_at().is_some_and(|end| end > now))
    }

    /// The revision with this number.
    pub fn get(&self, number: u64) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.number == number)
    }

    /// Removes the oldest revisions that are too many and not in force.
    pub(super) fn trim(&mut self, now: Timestamp) -> Vec<Revision> {
        let current = self.current().map(|revision| revision.number);
        let in_force: Vec<u64> =
            current.into_iter().chain(self.emergencies(now).map(|revision| revision.number)).collect();
        let mut excess = self.revisions.len().saturating_sub(REVISIONS_MAX);
        self.revisions
            .extract_if(.., |revision| {
                let is_removed = excess > 0 && !in_force.contains(&revision.number);
                excess -= usize::from(is_removed);
                is_removed
            })
            .collect()
    }
}

impl Revision {
    /// Whether it adds rules for a while.
    pub fn is_emergency(&self) -> bool {
        self.expires_at().is_some()
    }

    /// For emergency rules, the first instant at which they no longer apply.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.kind {
            RevisionKind::Emergency { expires_at } => Some(expires_at),
            RevisionKind::Push | RevisionKind::Rollback { .. } => None,
        }
    }
}

/// Writes the record.
pub(super) fn encode(history: &RulesHistory) -> Box<[u8]> {
    let revisions: Vec<Value> = history.revisions.iter().map(encode_revision).collect();
    encode_record(HISTORY_FORMAT, [("revisions", revisions.into())])
}

fn encode_revision(revision: &Revision) -> Value {
    let mut fields = Map::new();
    let text = |text: &Option<Box<str>>| text.as_deref().map(Value::from);
    put(&mut fields, "number", Some(revision.number.into()));
    match revision.kind {
        RevisionKind::Push => {}
        RevisionKind::Rollback { to } => put(&mut fields, "rollback_to", Some(to.into())),
        RevisionKind::Emergency { expires_at } => {
            put(&mut fields, "expires_at", Some(expires_at.as_nanos().into()));
        }
    }
    put(&mut fields, "at", Some(revision.at.as_nanos().into()));
    put(&mut fields, "author", text(&revision.author));
    put(&mut fields, "note", text(&revision.note));
    put(&mut fields, "bundle", Some((&*revision.bundle.id).into()));
    put(&mut fields, "parts", Some(revision.bundle.parts.into()));
    put(&mut fields, "crc32", Some(revision.bundle.crc32.into()));
    Value::Object(fields)
}

/// Reads the record.
pub(super) fn decode(version: ConfigVersion, bytes: &[u8]) -> Result<RulesHistory, RecordError> {
    let mut record = Fields::of_record(bytes, HISTORY_FORMAT)?;
    // Emergency rules that are in force are kept beyond the usual number.
    let revisions = record.list("revisions", 10 * REVISIONS_MAX)?;
    record.finish()?;
    let revisions = revisions.into_iter().map(decode_revision).collect::<Result<_, _>>()?;
    Ok(RulesHistory { revisions, version: Some(version) })
}

fn decode_revision(value: Value) -> Result<Revision, RecordError> {
    let mut fields = Fields::new(value)?;
    let missing = || RecordError::Damaged("a revision has no number, time or bundle".into());
    let kind = match (fields.number("rollback_to")?, fields.timestamp("expires_at")?) {
        (None, None) => RevisionKind::Push,
        (Some(to), None) => RevisionKind::Rollback { to },
        (None, Some(expires_at)) => RevisionKind::Emergency { expires_at },
        (Some(_), Some(_)) => {
            return Err(RecordError::Damaged("a rollback does not expire".into()));
        }
    };
    let crc32 = fields.number("crc32")?.and_then(|crc32| u32::try_from(crc32).ok());
    let revision = Revision {
        number: fields.number("number")?.ok_or_else(missing)?,
        kind,
        at: fields.timestamp("at")?.ok_or_else(missing)?,
        author: fields.text("author")?,
        note: fields.text("note")?,
        bundle: Bundle {
            id: fields.text("bundle")?.ok_or_else(missing)?,
            parts: fields.number("parts")?.ok_or_else(missing)?,
            crc32: crc32.ok_or_else(missing)?,
        },
    };
    fields.finish().map(|()| revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64, kind: RevisionKind) -> Revision {
        let bundle = Bundle { id: number.to_string().into(), parts: 1, crc32: 7 };
        let at = Timestamp::from_nanos(number);
        Revision { number, kind, at, author: Some("ann".into()), note: None, bundle }
    }

    #[test]
    fn a_record_decodes_to_its_history() {
        let expires_at = Timestamp::from_nanos(9);
        let kinds =
            [RevisionKind::Push, RevisionKind::Rollback { to: 1 }, RevisionKind::Emergency { expires_at }];
        let revisions = (1..).zip(kinds).map(|(number, kind)| revision(number, kind)).collect();
        let version = ConfigVersion::new(3);
        let history = RulesHistory { revisions, version: Some(version) };
        let record = encode(&history);
        assert_eq!(decode(version, &record), Ok(history));
        for length in 0..record.len() {
            assert!(decode(version, &record[..length]).is_err());
        }
        let newer = br#"{"v":2,"revisions":"other"}"#;
        assert_eq!(decode(version, newer), Err(RecordError::Newer(2, 1)));
    }

    #[test]
    fn revisions_in_force_are_kept() {
        let emergency = |end| RevisionKind::Emergency { expires_at: Timestamp::from_nanos(end) };
        let mut revisions =
            vec![revision(1, RevisionKind::Push), revision(2, emergency(10)), revision(3, emergency(30))];
        revisions.extend((4..60).map(|number| revision(number, emergency(10))));
        let mut history = RulesHistory { revisions, version: None };
        let removed = history.trim(Timestamp::from_nanos(20));
        assert_eq!(history.revisions.len(), REVISIONS_MAX);
        assert_eq!(history.current().map(|revision| revision.number), Some(1));
        assert!(history.get(3).is_some());
        assert!(removed.iter().map(|revision| revision.number).eq((2..3).chain(4..12)));
    }
}
