//! Reads the key of a counter.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::rules::{
    AddressAttribute, Attribute, KeyPart, KeySpec, PATH_SEGMENTS_MAX, PathPattern, Segment,
};
use tidegate_core::text::{did_you_mean, parse_number};

use super::conditions;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Node, Reader, printable};

/// Parts of a key at most.
pub const KEY_PARTS_MAX: usize = 16;
/// The last segment of a path that a key can use.
const PATH_SEGMENT_MAX: u64 = PATH_SEGMENTS_MAX as u64;

/// What a key may refer to besides attributes.
#[derive(Default)]
pub(super) struct KeyScope {
    /// The names in the path pattern, and their segments. With several patterns, the names that all of them
    /// have at the same segment.
    captures: Vec<(Box<str>, usize)>,
    /// The names that only some of several patterns have at that segment.
    partial_captures: HashMap<Box<str>, PartialCapture>,
    /// How many entries the rule names, if it uses entries.
    entries: Option<EntryCount>,
}

/// How many entries a descriptor has.
#[derive(Clone, Copy)]
pub(super) enum EntryCount {
    /// Exactly this many.
    Exactly(usize),
    /// Any number, at least those that are named.
    AtLeast,
}

/// A name that one pattern of a list has at a segment, and another has not.
struct PartialCapture {
    /// The index of the segment in the one pattern.
    segment_index: usize,
    /// The pattern without it.
    missing_from: Arc<str>,
}

impl KeyScope {
    /// What a key may refer to if the path matches any of these patterns.
    pub fn from_paths(paths: &[PathPattern]) -> Self {
        let mut scope = Self::default();
        let Some((first, rest)) = paths.split_first() else { return scope };
        for (index, name) in named_segments(first) {
            let lacks_name =
                |path: &&PathPattern| path.segments().get(index).and_then(Segment::name) != Some(name);
            match rest.iter().find(lacks_name) {
                None => scope.captures.push((name.into(), index)),
                Some(other) => {
                    let missing_from = printable(&other.to_string()).into();
                    scope
                        .partial_captures
                        .insert(name.into(), PartialCapture { segment_index: index, missing_from });
                }
            }
        }
        let missing_from: Arc<str> = printable(&first.to_string()).into();
        for (index, name) in rest.iter().flat_map(named_segments) {
            if first.segment_of(name).is_none() && !scope.partial_captures.contains_key(name) {
                scope.partial_captures.insert(
                    name.into(),
                    PartialCapture { segment_index: index, missing_from: Arc::clone(&missing_from) },
                );
            }
        }
        scope
    }

    pub fn from_entries(entries: EntryCount) -> Self {
        Self { entries: Some(entries), ..Self::default() }
    }
}

/// A list of parts, or one part.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, scope: &KeyScope) -> Option<KeySpec> {
    let parts = reader.one_or_more(node);
    if parts.len() > KEY_PARTS_MAX {
        let message = format!("a key of {} attributes is too long", parts.len());
        let diagnostic = Diagnostic::error("too-many-attributes", node.span, message);
        reader.push(diagnostic.hint(format!("the maximum is {KEY_PARTS_MAX}")));
        return None;
    }
    let read: Vec<KeyPart> = parts.iter().filter_map(|node| part(reader, node, scope)).collect();
    (read.len() == parts.len()).then(|| KeySpec::new(read))
}

fn part(reader: &mut Reader<'_>, node: &Node, scope: &KeyScope) -> Option<KeyPart> {
    let text = reader.name(node)?;
    let read = if let Some(read) = address(node, text) {
        read
    } else if let Some(segment) = text.strip_prefix("path.") {
        path_segment(node, segment, scope)
    } else if let Some(position) = text.strip_prefix("entry.").filter(|text| is_position(text)) {
        entry(node, position, scope)
    } else {
        return conditions::attribute(reader, node).map(KeyPart::Attribute);
    };
    match read {
        Ok(part) => Some(part),
        Err(diagnostic) => {
            reader.push(*diagnostic);
            None
        }
    }
}

type BoxedDiagnostic = Box<Diagnostic>;

/// `ip` and `ip/48`, also with Envoy's names of addresses. `None` if the text is something else.
fn address(node: &Node, text: &str) -> Option<Result<KeyPart, BoxedDiagnostic>> {
    let (name, bits) = match text.split_once('/') {
        Some((name, bits)) => (name, Some(bits)),
        None => (text, None),
    };
    let attribute = AddressAttribute::ALL.into_iter().find(|attribute| attribute.name() == name)?;
    let bits = bits.map_or(Ok(KeySpec::IPV6_PREFIX_BITS_DEFAULT), str::parse);
    Some(match bits {
        Ok(ipv6_prefix_bits @ 1..=128) => Ok(KeyPart::Address { attribute, ipv6_prefix_bits }),
        _ => {
            let message = format!("`{}` is not a prefix of an address", printable(text));
            let hint = format!("write the bits of an IPv6 prefix, from `{name}/1` to `{name}/128`");
            Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
        }
    })
}

fn path_segment(node: &Node, segment: &str, scope: &KeyScope) -> Result<KeyPart, BoxedDiagnostic> {
    if is_position(segment) {
        return match parse_number("segment", segment) {
            Ok(position @ 1..=PATH_SEGMENT_MAX) => {
                Ok(KeyPart::PathSegment { name: position.to_string().into(), index: to_index(position) })
            }
            _ => {
                let message = format!("a path has no segment {}", printable(segment));
                let hint = format!("segments count from `path.1` to `path.{PATH_SEGMENT_MAX}`");
                Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
            }
        };
    }
    if let Some((_, index)) = scope.captures.iter().find(|(name, _)| **name == *segment) {
        return Ok(KeyPart::PathSegment { name: segment.into(), index: *index });
    }
    if let Some(partial) = scope.partial_captures.get(segment) {
        return Err(not_in_every_path(node, segment, partial));
    }
    let message = format!("the rule's path has no `{{{}}}`", printable(segment));
    let diagnostic = Diagnostic::error("bad-key", node.span, message);
    let names: Vec<String> = scope.captures.iter().map(|(name, _)| format!("path.{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(match (did_you_mean(&format!("path.{segment}"), &names), names.is_empty()) {
        (Some(hint), _) => diagnostic.hint(hint),
        (None, false) => diagnostic.hint(format!("its path has: {}", names.join(", "))),
        (None, true) => diagnostic.hint(format!(
            "name a segment in the rule's match, for example `path: /users/{{{}}}`",
            printable(segment)
        )),
    }
    .into())
}

fn not_in_every_path(
    node: &Node,
    name: &str,
    PartialCapture { segment_index, missing_from }: &PartialCapture,
) -> BoxedDiagnostic {
    let (name, position) = (printable(name), segment_index + 1);
    let message = format!("not every path of the rule has `{{{name}}}` as its segment {position}");
    let diagnostic = Diagnostic::error("bad-key", node.span, message);
    let hint = format!("`{missing_from}` does not; write `path.{position}`, or a separate rule for it");
    diagnostic.hint(hint).into()
}

/// The names in a pattern, with the indexes of their segments.
fn named_segments(path: &PathPattern) -> impl Iterator<Item = (usize, &str)> {
    path.segments().iter().enumerate().filter_map(|(at, segment)| Some((at, segment.name()?)))
}

fn entry(node: &Node, position: &str, scope: &KeyScope) -> Result<KeyPart, BoxedDiagnostic> {
    let error = |message: String, hint: String| {
        Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
    };
    let Some(entries) = scope.entries else {
        let hint = "use the attribute's name, or write `entries` instead of `match`";
        return error(format!("`entry.{}` needs `entries`", printable(position)), hint.to_owned());
    };
    match (parse_number("entry", position), entries) {
        (Ok(0) | Err(_), _) => error(
            format!("there is no entry {}", printable(position)),
            "entries count from `entry.1`".to_owned(),
        ),
        (Ok(position), EntryCount::Exactly(count)) if to_index(position) >= count => error(
            format!("there is no entry {position}"),
            format!("the rule has {count}; the last is `entry.{count}`"),
        ),
        (Ok(position), _) => Ok(KeyPart::Entry(to_index(position))),
    }
}

fn is_position(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// From a position that counts from 1 to an position that counts from 0.
fn to_index(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX) - 1
}

/// Checks an attribute's name. Shared by conditions, keys, costs and tiers.
pub(super) fn parse_attribute(text: &str) -> Result<Attribute, &'static str> {
    match text {
        "header." => Err("name the header: `header.x-api-key`"),
        _ => Ok(Attribute::from_name(text)),
    }
}
