//! The files that are in force.

use serde_json::{Map, Value};
use tidegate_core::Timestamp;

use super::bundle;
use crate::config::{Fields, RecordError, encode_record, put};
use crate::rules::{FILES_MAX, RulesText};

const COPY_FORMAT: u64 = 1;
/// The most layers of a copy.
const LAYERS_MAX: usize = 1_000;

/// The rules that are in force: those of one revision, and emergency rules on top of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayeredRules {
    /// The layers. The first ones come first among the rules.
    pub layers: Vec<RulesLayer>,
}

/// The files of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesLayer {
    /// The number of the revision.
    pub revision: u64,
    /// For emergency rules, the first instant at which they no longer apply.
    pub expires_at: Option<Timestamp>,
    /// The files.
    pub files: Vec<RulesText>,
}

impl LayeredRules {
    /// The files at an instant. The names of emergency files tell their revision.
    pub fn files(&self, now: Timestamp) -> Vec<RulesText> {
        let layers = self.layers.iter().filter(|layer| layer.expires_at.is_none_or(|end| end > now));
        let files = layers.flat_map(|layer| {
            layer.files.iter().map(|file| match layer.expires_at {
                None => file.clone(),
                Some(_) => RulesText {
                    name: format!("emergency-{}/{}", layer.revision, file.name).into(),
                    text: file.text.clone(),
                },
            })
        });
        files.collect()
    }

    /// The revisions at an instant.
    pub fn revisions(&self, now: Timestamp) -> Vec<u64> {
        let layers = self.layers.iter().filter(|layer| layer.expires_at.is_none_or(|end| end > now));
        layers.map(|layer| layer.revision).collect()
    }

    /// A copy for a file, so that a node can start while the config store is away.
    pub fn to_copy(&self) -> Box<[u8]> {
        let layer = |RulesLayer { revision, expires_at, files }: &RulesLayer| {
            let mut fields = Map::new();
            put(&mut fields, "revision", Some((*revision).into()));
            put(&mut fields, "expires_at", expires_at.map(|end| end.as_nanos().into()));
            put(&mut fields, "files", Some(bundle::files_json(files)));
            Value::Object(fields)
        };
        encode_record(COPY_FORMAT, [("layers", self.layers.iter().map(layer).collect())])
    }

    /// Reads a copy.
    pub fn from_copy(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut record = Fields::of_record(bytes, COPY_FORMAT)?;
        let layers = record.list("layers", LAYERS_MAX)?;
        record.finish()?;
        let layer = |value| {
            let mut fields = Fields::new(value)?;
            let layer = RulesLayer {
                revision: fields.number("revision")?.unwrap_or_default(),
                expires_at: fields.timestamp("expires_at")?,
                files: bundle::files_from_json(fields.list("files", FILES_MAX)?)?,
            };
            fields.finish().map(|()| layer)
        };
        let layers = layers.into_iter().map(layer).collect::<Result<_, RecordError>>()?;
        Ok(Self { layers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emergency_rules_end_by_the_clock() {
        let at = Timestamp::from_nanos;
        let file = |name: &str| RulesText { name: name.into(), text: "\u{0}\"".into() };
        let layer = |revision, expires_at| RulesLayer { revision, expires_at, files: vec![file("a.yaml")] };
        let active = LayeredRules { layers: vec![layer(7, Some(at(10))), layer(3, None)] };
        let names =
            |now| active.files(now).into_iter().map(|file| file.name.into_string()).collect::<Vec<_>>();
        assert_eq!(names(at(9)), ["emergency-7/a.yaml", "a.yaml"]);
        assert_eq!(names(at(10)), ["a.yaml"]);
        assert_eq!((active.revisions(at(9)), active.revisions(at(10))), (vec![7, 3], vec![3]));
        let copy = active.to_copy();
        assert_eq!(LayeredRules::from_copy(&copy), Ok(active));
        assert!(LayeredRules::from_copy(&copy[1..]).is_err());
    }
}
