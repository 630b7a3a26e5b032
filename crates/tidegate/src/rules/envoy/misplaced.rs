//! Fields that are known, but not where they stand.
//!
//! envoyproxy/ratelimit knows all its fields everywhere and does not look at those that are in the wrong place, so such a
//! file loads. It is said all the same, for `shadow_mode` within `rate_limit` looks as if it did something.

use super::super::diagnostic::Diagnostic;
use super::super::reader::{Fields, Reader};

/// The mappings of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    File,
    Descriptor,
    RateLimit,
    /// An item of `replaces`.
    Replaced,
}

use Mapping::{Descriptor, File, RateLimit, Replaced};

impl Mapping {
    /// What messages call it.
    pub fn what(self) -> &'static str {
        match self {
            Self::File => "a file for envoyproxy/ratelimit",
            Self::Descriptor => "a descriptor",
            Self::RateLimit => "`rate_limit`",
            Self::Replaced => "an item of `replaces`",
        }
    }
}

/// Every field of envoyproxy/ratelimit, and where it has its place.
const FIELDS: [(&str, &[Mapping]); 16] = [
    ("domain", &[File]),
    ("descriptors", &[File, Descriptor]),
    ("key", &[Descriptor]),
    ("value", &[Descriptor]),
    ("rate_limit", &[Descriptor]),
    ("shadow_mode", &[Descriptor]),
    ("quota_mode", &[Descriptor]),
    ("detailed_metric", &[Descriptor]),
    ("value_to_metric", &[Descriptor]),
    ("share_threshold", &[Descriptor]),
    ("metadata", &[Descriptor]),
    ("unit", &[RateLimit]),
    ("requests_per_unit", &[RateLimit]),
    ("unlimited", &[RateLimit]),
    ("name", &[RateLimit, Replaced]),
    ("replaces", &[RateLimit]),
];

/// Says which fields have no effect where they stand, and which nobody knows.
pub(super) fn finish(reader: &mut Reader<'_>, mut fields: Fields<'_>, mapping: Mapping) {
    for (name, places) in FIELDS {
        if places.contains(&mapping) {
            continue;
        }
        let Some(field) = fields.take_unlisted(name) else { continue };
        let places: Vec<&str> = places.iter().map(|place| place.what()).collect();
        let message = format!("`{name}` has no effect in {}", mapping.what());
        let hint = format!("it is a field of {}; move it there, or leave it out", places.join(" or of "));
        reader.note(Diagnostic::warning("misplaced-field", field.key.span, message).hint(hint));
    }
    fields.finish(reader, mapping.what());
}
