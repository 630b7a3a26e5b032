//! Files, and their parts in the config store.
//!
//! A config store takes values of a few hundred KiB, and rules may be larger. So the files are written as one text, in parts.

use serde_json::{Map, Value};

use super::history::Bundle;
use crate::config::{ConfigWrite, Fields, RecordError, WriteCondition, encode_record};
use crate::rules::{FILES_MAX, RulesText};

/// The most bytes of the files of one push, with their names.
pub const BUNDLE_BYTES_MAX: usize = 16 << 20;
/// The bytes of a part. Smaller than the values that every config store takes.
const PART_BYTES: usize = 200 << 10;
/// The most parts: names, quotes and escaped line breaks make the text longer than the files.
const PARTS_MAX: u64 = (4 * BUNDLE_BYTES_MAX / PART_BYTES) as u64;
const BUNDLE_FORMAT: u64 = 1;
/// Begins the keys of all bundles.
const PREFIX: &str = "r\u{1f}bundle\u{1f}";

/// The text of files.
pub(super) fn encode(files: &[RulesText]) -> Box<[u8]> {
    encode_record(BUNDLE_FORMAT, [("files", files_json(files))])
}

/// The files of a text.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<RulesText>, RecordError> {
    let mut record = Fields::of_record(bytes, BUNDLE_FORMAT)?;
    let files = files_from_json(record.list("files", FILES_MAX)?)?;
    record.finish().map(|()| files)
}

pub(super) fn files_json(files: &[RulesText]) -> Value {
    let file = |RulesText { name, text }: &RulesText| {
        let fields =
            [("name", name), ("text", text)].map(|(field, value)| (field.to_owned(), (&**value).into()));
        Value::Object(Map::from_iter(fields))
    };
    files.iter().map(file).collect()
}

pub(super) fn files_from_json(list: Vec<Value>) -> Result<Vec<RulesText>, RecordError> {
    let file = |value| {
        let mut fields = Fields::new(value)?;
        let (name, text) = (fields.text("name")?, fields.text("text")?);
        fields.finish()?;
        let missing = || RecordError::Damaged("a file has no name or no text".into());
        Ok(RulesText { name: name.ok_or_else(missing)?, text: text.ok_or_else(missing)? })
    };
    list.into_iter().map(file).collect()
}

/// The writes of all parts of a bundle.
pub(super) fn writes(bundle: &Bundle, text: &[u8]) -> Vec<ConfigWrite> {
    let parts = part_keys(bundle).zip(text.chunks(PART_BYTES));
    parts
        .map(|(key, part)| ConfigWrite { key, value: Some(part.into()), condition: WriteCondition::Always })
        .collect()
}

/// The writes that delete a bundle.
pub(super) fn deletes(bundle: &Bundle) -> Vec<ConfigWrite> {
    part_keys(bundle).map(|key| ConfigWrite { key, value: None, condition: WriteCondition::Always }).collect()
}

/// The keys of the parts, in order.
pub(super) fn part_keys(bundle: &Bundle) -> impl Iterator<Item = Box<str>> + use<> {
    let (id, parts) = (bundle.id.clone(), bundle.parts);
    (0..parts.min(PARTS_MAX)).map(move |part| format!("{PREFIX}{id}\u{1f}{part:04}").into())
}

/// How many parts a text has.
pub(super) fn part_count(text: &[u8]) -> u64 {
    text.len().div_ceil(PART_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check_writes;

    #[test]
    fn parts_together_are_the_text() {
        let file = |name: &str, bytes: usize| RulesText {
            name: name.into(),
            text: "\"\u{e9}\n".repeat(bytes / 4).into(),
        };
        let files = vec![file("a.yaml", 0), file("dir/b.yaml", 1 << 20)];
        let text = encode(&files);
        let bundle = Bundle { id: "7".into(), parts: part_count(&text), crc32: 0 };
        let writes = writes(&bundle, &text);
        assert!(writes.len() > 1);
        assert_eq!(check_writes(&writes), Ok(()));
        let joined: Vec<u8> = writes.iter().flat_map(|write| write.value.iter().flatten().copied()).collect();
        assert_eq!(decode(&joined), Ok(files));
        let keys: Vec<_> = writes.iter().map(|write| &write.key).collect();
        assert!(keys.is_sorted() && deletes(&bundle).iter().map(|write| &write.key).eq(keys));
        for length in [0, 1, joined.len() / 2, joined.len() - 1] {
            assert!(decode(&joined[..length]).is_err());
        }
    }
}
