//! What a counter's key is made of.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::rules::{Attribute, KeySpec, KeyPart, PATH_SEGMENTS_MAX, PathPattern, Segment};
use tidegate_core::text::{did_you_mean, parse_number};

use super::super::diagnostic::Diagnostic;
use super::super::reader::Reader;
use super::super::yaml::{Node, printable};
use super::conditions;

/// The most parts of a key.
pub const KEY_PARTS_MAX: usize = 16;
/// The last segment of a path that a key can be made of.
const PATH_SEGMENT_MAX: u64 = PATH_SEGMENTS_MAX as u64;

/// What a key may refer to besides attributes.
#[derive(Default)]
pub(super) struct KeyScope {
    /// The names in the path's pattern, and which segments they stand for. Of several patterns, the names that all of
    /// them have at the same place.
    captures: Vec<(Box<str>, usize)>,
    /// The names that only some of several patterns have at the same place.
    partial_captures: HashMap<Box<str>, PartialCapture>,
    /// How many entries the rule names, if it names entries.
    entries: Option<EntryCount>,
}

/// How many entries a descriptor has.
#[derive(Clone, Copy)]
pub(super) enum EntryCount {
    /// So many.
    Exactly(usize),
    /// Any number, so many of which are named.
    AtLeast,
}

/// A name that stands for a segment in one pattern of a list, and not in another.
struct PartialCapture {
    /// Which segment it stands for in the one.
    segment_index: usize,
    /// The other.
    missing_from: Arc<str>,
}

impl KeyScope {
    /// What can be referred to of a path that has any of these patterns.
    pub fn from_paths(paths: &[PathPattern]) -> Self {
        let mut scope = Self::default();
        let Some((first, others)) = paths.split_first() else { return scope };
        for (place, name) in named_segments(first) {
            let is_elsewhere =
                |path: &&PathPattern| path.segments().get(place).and_then(Segment::name) != Some(name);
            match others.iter().find(is_elsewhere) {
                None => scope.captures.push((name.into(), place)),
                Some(other) => {
                    let without = printable(&other.to_string()).into();
                    scope.partial_captures.insert(name.into(), PartialCapture { segment_index: place, missing_from: without });
                }
            }
        }
        let without: Arc<str> = printable(&first.to_string()).into();
        for (place, name) in others.iter().flat_map(named_segments) {
            if first.segment_of(name).is_none() && !scope.partial_captures.contains_key(name) {
                scope.partial_captures.insert(name.into(), PartialCapture { segment_index: place, missing_from: Arc::clone(&without) });
            }
        }
        scope
    }

    pub fn from_entries(entries: EntryCount) -> Self {
        Self { entries: Some(entries), ..Self::default() }
    }
}

/// A list of parts, or one.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, scope: &KeyScope) -> Option<KeySpec> {
    let parts = reader.one_or_more(node);
    if parts.len() > KEY_PARTS_MAX {
        let message = format!("a key of {} attributes is too long", parts.len());
        let found = Diagnostic::error("too-many-attributes", node.span, message);
        reader.push(found.hint(format!("{KEY_PARTS_MAX} are the most")));
        return None;
    }
    let read: Vec<KeyPart> = parts.iter().filter_map(|node| part(reader, node, scope)).collect();
    (read.len() == parts.len()).then(|| KeySpec::new(read))
}

fn part(reader: &mut Reader<'_>, node: &Node, scope: &KeyScope) -> Option<KeyPart> {
    let text = reader.name(node)?;
    if text == "ip" {
        return Some(KeyPart::Ip { ipv6_prefix_bits: KeySpec::IPV6_PREFIX_BITS_DEFAULT });
    }
    let read = if let Some(bits) = text.strip_prefix("ip/") {
        ip_prefix(node, bits)
    } else if let Some(segment) = text.strip_prefix("path.") {
        path_segment(node, segment, scope)
    } else if let Some(place) = text.strip_prefix("entry.").filter(|place| is_position(place)) {
        entry(node, place, scope)
    } else {
        return conditions::attribute(reader, node).map(KeyPart::Attribute);
    };
    match read {
        Ok(part) => Some(part),
        Err(found) => {
            reader.push(*found);
            None
        }
    }
}

type BoxedDiagnostic = Box<Diagnostic>;

fn ip_prefix(node: &Node, bits: &str) -> Result<KeyPart, BoxedDiagnostic> {
    match bits.parse() {
        Ok(bits @ 1..=128) => Ok(KeyPart::Ip { ipv6_prefix_bits: bits }),
        _ => {
            let message = format!("`ip/{}` is not a part of an address", printable(bits));
            let hint = "write the bits of an IPv6 address, from `ip/1` to `ip/128`";
            Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
        }
    }
}

fn path_segment(node: &Node, segment: &str, scope: &KeyScope) -> Result<KeyPart, BoxedDiagnostic> {
    if is_position(segment) {
        return match parse_number("segment", segment) {
            Ok(place @ 1..=PATH_SEGMENT_MAX) => {
                Ok(KeyPart::PathSegment { name: place.to_string().into(), index: to_index(place) })
            }
            _ => {
                let message = format!("there is no segment {} of a path", printable(segment));
                let hint = format!("segments count from `path.1` to `path.{PATH_SEGMENT_MAX}`");
                Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
            }
        };
    }
    if let Some((_, at)) = scope.captures.iter().find(|(name, _)| **name == *segment) {
        return Ok(KeyPart::PathSegment { name: segment.into(), index: *at });
    }
    if let Some(uncertain) = scope.partial_captures.get(segment) {
        return Err(not_in_every_path(node, segment, uncertain));
    }
    let message = format!("the rule's path has no `{{{}}}`", printable(segment));
    let found = Diagnostic::error("bad-key", node.span, message);
    let known: Vec<String> = scope.captures.iter().map(|(name, _)| format!("path.{name}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(match (did_you_mean(&format!("path.{segment}"), &known), known.is_empty()) {
        (Some(hint), _) => found.hint(hint),
        (None, false) => found.hint(format!("its path has: {}", known.join(", "))),
        (None, true) => found.hint(format!(
            "name a segment in the rule's match, for example `path: /users/{{{}}}`",
            printable(segment)
        )),
    }
    .into())
}

fn not_in_every_path(node: &Node, name: &str, PartialCapture { segment_index: place, missing_from: without }: &PartialCapture) -> BoxedDiagnostic {
    let (name, place) = (printable(name), place + 1);
    let message = format!("not every path of the rule has `{{{name}}}` as its segment {place}");
    let found = Diagnostic::error("bad-key", node.span, message);
    let hint = format!("`{without}` has not; write `path.{place}`, or a rule of its own for it");
    found.hint(hint).into()
}

/// The names in a pattern, and which segments they stand for.
fn named_segments(path: &PathPattern) -> impl Iterator<Item = (usize, &str)> {
    path.segments().iter().enumerate().filter_map(|(at, segment)| Some((at, segment.name()?)))
}

fn entry(node: &Node, place: &str, scope: &KeyScope) -> Result<KeyPart, BoxedDiagnostic> {
    let refused = |message: String, hint: String| {
        Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
    };
    let Some(entries) = scope.entries else {
        let hint = "use the attribute's name, or write `entries` instead of `match`";
        return refused(format!("`entry.{}` needs `entries`", printable(place)), hint.to_owned());
    };
    match (parse_number("entry", place), entries) {
        (Ok(0) | Err(_), _) => {
            refused(format!("there is no entry {}", printable(place)), "entries count from `entry.1`".to_owned())
        }
        (Ok(place), EntryCount::Exactly(count)) if to_index(place) >= count => refused(
            format!("there is no entry {place}"),
            format!("the rule has {count}; the last is `entry.{count}`"),
        ),
        (Ok(place), _) => Ok(KeyPart::Entry(to_index(place))),
    }
}

fn is_position(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// From a place that counts from 1 to one that counts from 0.
fn to_index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX) - 1
}

/// An attribute's name, checked. Shared by conditions, keys, costs and tiers.
pub(super) fn parse_attribute(text: &str) -> Result<Attribute, &'static str> {
    match text {
        "header." => Err("name the header: `header.x-api-key`"),
        _ => Ok(Attribute::from_name(text)),
    }
}
