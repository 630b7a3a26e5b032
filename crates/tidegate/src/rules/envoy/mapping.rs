//! The mappings of a file, and known fields in the wrong mapping.
//!
//! envoyproxy/ratelimit accepts all its fields everywhere and ignores those in the wrong place, so such a
//! file loads. It gets a warning here, because `shadow_mode` within `rate_limit` looks as if it had an
//! effect.

use crate::rules::diagnostic::{Diagnostic, Severity};
use crate::rules::yaml::{Fields, Node, NodeKind, Reader};

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

/// Every field of envoyproxy/ratelimit and the extension, and the mappings that they belong to.
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

/// The name of the extension.
pub(super) const EXTENSION: &str = "tidegate";

impl Mapping {
    /// The fields of such a mapping. Reports any other value.
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

    /// Warns about fields without effect, and reports unknown ones.
    pub fn finish(self, reader: &mut Reader<'_>, mut fields: Fields<'_>) {
        for (name, mappings) in FIELDS {
            if self == Extension || mappings.contains(&self) {
                continue;
            }
            let Some(field) = fields.take_unlisted(name) else { continue };
            let mappings: Vec<&str> = mappings.iter().map(|mapping| mapping.label()).collect();
            let message = format!("`{name}` has no effect in {}", self.label());
            let hint =
                format!("it is a field of {}; move it there, or leave it out", mappings.join(" or of "));
            // Only files for Tidegate have the extension, so an error breaks no other file.
            let severity = if name == EXTENSION { Severity::Error } else { Severity::Warning };
            let diagnostic = Diagnostic::warning("misplaced-field", field.key.span, message).hint(hint);
            reader.push(Diagnostic { severity, ..diagnostic });
        }
        fields.finish(reader, self.label());
    }

    /// Its name in messages.
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

/// The items of a list; empty if there is no value.
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
