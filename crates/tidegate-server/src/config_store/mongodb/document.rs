//! The documents of the collection.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};
use tidegate::config::{ConfigEntry, ConfigVersion, ConfigWrite};

pub(super) const ID: &str = "_id";
pub(super) const KEY: &str = "key";
pub(super) const VALUE: &str = "value";
pub(super) const DELETED: &str = "deleted";

/// The version of the first document.
pub(super) const FIRST_VERSION: i64 = 0;
/// The greatest version: the greatest whole number that every client of MongoDB can represent. Greater ones are no versions.
pub(super) const VERSION_MAX: i64 = (1 << 53) - 1;

/// The document of a write.
pub(super) fn of_write(version: i64, write: &ConfigWrite) -> Document {
    let mut document = doc! { ID: version, KEY: &*write.key };
    match &write.value {
        Some(value) => {
            let bytes = value.to_vec();
            document.insert(VALUE, Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes }));
        }
        None => drop(document.insert(DELETED, true)),
    }
    document
}

/// The version of a document. Other clients may have inserted one with another kind of number.
pub(super) fn version_of(document: &Document) -> Option<i64> {
    let version = match document.get(ID)? {
        Bson::Int64(version) => *version,
        Bson::Int32(version) => i64::from(*version),
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, and the bounds are checked below"
        )]
        Bson::Double(version) => version.floor() as i64,
        _ => return None,
    };
    (FIRST_VERSION..=VERSION_MAX).contains(&version).then_some(version)
}

/// The key of a document that is not the first one or a floor.
pub(super) fn key_of(document: &Document) -> Option<&str> {
    document.get_str(KEY).ok().filter(|key| !key.is_empty())
}

pub(super) fn is_deletion(document: &Document) -> bool {
    document.get_bool(DELETED).unwrap_or(false)
}

/// The value of a document. One that is not binary is damaged: it is returned as text, and the caller reports it.
pub(super) fn value_of(document: &mut Document) -> Box<[u8]> {
    match document.remove(VALUE) {
        Some(Bson::Binary(Binary { bytes, .. })) => bytes.into(),
        Some(Bson::String(text)) => text.into_bytes().into(),
        Some(other) => other.to_string().into_bytes().into(),
        None => Box::default(),
    }
}

/// The entry of a document, or `None` for a deletion.
pub(super) fn entry_of(mut document: Document) -> Option<ConfigEntry> {
    if is_deletion(&document) {
        return None;
    }
    let (key, version) = (key_of(&document)?.into(), public_version(version_of(&document)?));
    Some(ConfigEntry { key, value: value_of(&mut document), version })
}

pub(super) fn public_version(version: i64) -> ConfigVersion {
    ConfigVersion::new(u64::try_from(version).unwrap_or(0))
}

/// The filter for versions from this one on.
pub(super) fn versions_from(version: i64) -> Document {
    doc! { ID: { "$gte": version, "$lte": VERSION_MAX } }
}

/// The filter for documents of keys. Without a version they are no entries, and would sort after all others of their key.
pub(super) fn entries_of(keys: impl Into<Bson>) -> Document {
    let mut filter = versions_from(FIRST_VERSION);
    filter.insert(KEY, keys);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_documents_are_read_as_far_as_possible() {
        let entry = |document| entry_of(document).map(|entry| (entry.value.to_vec(), entry.version.get()));
        assert_eq!(entry(doc! { ID: 7_i64, KEY: "k", VALUE: "text" }), Some((b"text".to_vec(), 7)));
        assert_eq!(entry(doc! { ID: 7_i64, KEY: "k", VALUE: 5 }), Some((b"5".to_vec(), 7)));
        assert_eq!(entry(doc! { ID: 7_i32, KEY: "k" }), Some((Vec::new(), 7)));
        assert_eq!(entry(doc! { ID: 7.5, KEY: "k", VALUE: "x" }), Some((b"x".to_vec(), 7)));
        for damaged in
            [doc! {}, doc! { ID: "x", KEY: "k" }, doc! { ID: -1_i64, KEY: "k" }, doc! { ID: 1_i64 }]
        {
            assert_eq!(entry(damaged), None);
        }
        assert_eq!(version_of(&doc! { ID: f64::INFINITY }), None);
        assert_eq!(version_of(&doc! { ID: i64::MAX }), None);
        assert_eq!(entry(doc! { ID: 7_i64, KEY: "k", DELETED: true }), None);
    }
}
