//! Values as JSON: an object with a format number.
//!
//! A record with a greater format number was written by a newer version: it is reported and not used. An unknown field is an
//! error too, because ignoring it could lift a limit.

use std::fmt;

use serde_json::{Map, Value};
use tidegate_core::Timestamp;

/// Why a value is not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// It has a newer format. Carries its number and the greatest one that this version reads.
    Newer(u64, u64),
    /// It is damaged. Carries what is wrong.
    Damaged(Box<str>),
}

/// The fields of an object that were not read yet.
pub(crate) struct Fields(Map<String, Value>);

/// Writes a record with these fields.
pub(crate) fn encode_record<const N: usize>(format: u64, fields: [(&str, Value); N]) -> Box<[u8]> {
    let mut record = Map::new();
    record.insert("v".into(), format.into());
    record.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(record).to_string().into_bytes().into()
}

/// Adds a field, if it is set.
pub(crate) fn put(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        fields.insert(name.into(), value);
    }
}

impl Fields {
    /// The fields of a record with this format.
    pub fn of_record(bytes: &[u8], format: u64) -> Result<Self, RecordError> {
        let record = serde_json::from_slice(bytes);
        let mut fields = Self::new(record.map_err(|error| RecordError::Damaged(error.to_string().into()))?)?;
        match fields.number("v")? {
            Some(found) if found == format => Ok(fields),
            Some(newer) if newer > format => Err(RecordError::Newer(newer, format)),
            _ => Err(RecordError::Damaged("no format number".into())),
        }
    }

    pub fn new(value: Value) -> Result<Self, RecordError> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(RecordError::Damaged("not an object".into())),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn number(&mut self, name: &str) -> Result<Option<u64>, RecordError> {
        let wrong = || RecordError::Damaged(format!("{name} is not a number").into());
        self.0.remove(name).map(|value| value.as_u64().ok_or_else(wrong)).transpose()
    }

    pub fn timestamp(&mut self, name: &str) -> Result<Option<Timestamp>, RecordError> {
        Ok(self.number(name)?.map(Timestamp::from_nanos))
    }

    pub fn text(&mut self, name: &str) -> Result<Option<Box<str>>, RecordError> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.into())),
            Some(_) => Err(RecordError::Damaged(format!("{name} is not a text").into())),
        }
    }

    /// A list that has to be there.
    pub fn list(&mut self, name: &str, length_max: usize) -> Result<Vec<Value>, RecordError> {
        match self.0.remove(name) {
            Some(Value::Array(list)) if list.len() <= length_max => Ok(list),
            Some(Value::Array(_)) => Err(RecordError::Damaged(format!("too many {name}").into())),
            _ => Err(RecordError::Damaged(format!("no list of {name}").into())),
        }
    }

    /// Checks that all fields were read.
    pub fn finish(self) -> Result<(), RecordError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(RecordError::Damaged(format!("unknown field {name:?}").into())),
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(found, format) => {
                write!(f, "it has format {found}; this version reads format {format}")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
        }
    }
}

impl std::error::Error for RecordError {}
