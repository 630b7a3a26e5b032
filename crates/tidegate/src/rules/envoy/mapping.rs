//! The mappings of a file, and fields that are known but not where they stand.
//!
//! envoyproxy/ratelimit knows all its fields everywhere and does not look at those that are in the wrong place, so such a
//! file loads. It is said all the same, for `shadow_mode` within `rate_limit` looks as if it did something.

use super::super::diagnostic::{Diagnostic, Severity};
use super::super::reader::{Fields, Reader};
use super::super::yaml::{NodeKind, Node};

/// The mappings of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    File,
    Descriptor,
    RateLimit,
    /// An item of `replaces`.
    ReplacesItem,
    Extension,
}

use Mapping::{Descriptor, Extension, File, RateLimit, ReplacesItem};

/// Every field of envoyproxy/ratelimit and the one that is added, and where they have their place.
const FIELDS: [(&str, &[Mapping]); 17] = [
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
    ("name", &[RateLimit, ReplacesItem]),
    ("replaces", &[RateLimit]),
    (EXTENSION, &[Descriptor]),
];

/// What is added to the fields of a descriptor.
pub(super) const EXTENSION: &str = "tidegate";

impl Mapping {
    /// The fields of such a mapping; if it is none, that is said.
    pub fn fields<'n>(self, reader: &mut Reader<'_>, node: &'n Node) -> Option<Fields<'n>> {
        if let NodeKind::Map(_) = node.kind {
            return Fields::of(reader, node, self.label());
        }
        reader.wrong_type_hint(
            node,
            &format!("{} (a mapping)", self.label()),
            format!("write for example `{}`", self.example()),
        );
        None
    }

    /// Says which fields have no effect where they stand, and which nobody knows.
    pub fn finish(self, reader: &mut Reader<'_>, mut fields: Fields<'_>) {
        for (name, places) in FIELDS {
            if self == Extension || places.contains(&self) {
                continue;
            }
            let Some(field) = fields.take_unlisted(name) else { continue };
            let places: Vec<&str> = places.iter().map(|place| place.label()).collect();
            let message = format!("`{name}` has no effect in {}", self.label());
            let hint = format!("it is a field of {}; move it there, or leave it out", places.join(" or of "));
            // Nobody else's files have the extension, so there is no reason to let it stand where it does nothing.
            let severity = if name == EXTENSION { Severity::Error } else { Severity::Warning };
            let found = Diagnostic::warning("misplaced-field", field.key.span, message).hint(hint);
            reader.push(Diagnostic { severity, ..found });
        }
        fields.finish(reader, self.label());
    }

    /// What messages call it.
    fn label(self) -> &'static str {
        match self {
            File => "a file for envoyproxy/ratelimit",
            Descriptor => "a descriptor",
            RateLimit => "`rate_limit`",
            ReplacesItem => "an item of `replaces`",
            Extension => "`tidegate`",
        }
    }

    fn example(self) -> &'static str {
        match self {
            File => "domain: edge",
            Descriptor => "key: remote_address",
            RateLimit => "rate_limit: { unit: minute, requests_per_unit: 100 }",
            ReplacesItem => "- name: per-user",
            Extension => "tidegate: { algorithm: gcra, burst: 20 }",
        }
    }
}

/// The items of a list; none, if there is nothing.
pub(super) fn list<'n>(reader: &mut Reader<'_>, node: &'n Node, example: &str) -> &'n [Node] {
    match &node.kind {
        NodeKind::Null => &[],
        NodeKind::Seq(items) => items,
        _ => {
            reader.wrong_type_hint(node, "a list", format!("write for example `- {example}`"));
            &[]
        }
    }
}
