//! What a counter's key is made of.

use tidegate_core::rules::{Attribute, Key, KeyPart, PATH_SEGMENTS_MAX, PathPattern};
use tidegate_core::text::{did_you_mean, parse_number};

use super::super::diagnostic::Diagnostic;
use super::super::reader::Reader;
use super::super::yaml::{Node, shown};
use super::matching;

/// The most parts of a key.
pub const KEY_PARTS_MAX: usize = 16;
/// The last segment of a path that a key can be made of.
const PATH_SEGMENT_MAX: u64 = PATH_SEGMENTS_MAX as u64;

/// What a key may refer to besides attributes.
#[derive(Default)]
pub(super) struct Scope {
    /// The names in the path's pattern, and which segments they stand for.
    captures: Vec<(Box<str>, usize)>,
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

impl Scope {
    pub fn of_path(path: Option<&PathPattern>) -> Self {
        let mut captures = Vec::new();
        for (at, segment) in path.map(PathPattern::segments).unwrap_or_default().iter().enumerate() {
            if let Some(name) = segment.name() {
                captures.push((name.into(), at));
            }
        }
        Self { captures, entries: None }
    }

    pub fn of_entries(entries: EntryCount) -> Self {
        Self { captures: Vec::new(), entries: Some(entries) }
    }
}

/// A list of parts, or one.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, scope: &Scope) -> Option<Key> {
    let parts = reader.one_or_more(node);
    if parts.len() > KEY_PARTS_MAX {
        let message = format!("a key of {} attributes is too long", parts.len());
        let found = Diagnostic::error("too-many-attributes", node.span, message);
        reader.note(found.hint(format!("{KEY_PARTS_MAX} are the most")));
        return None;
    }
    let read: Vec<KeyPart> = parts.iter().filter_map(|node| part(reader, node, scope)).collect();
    (read.len() == parts.len()).then(|| Key::new(read))
}

fn part(reader: &mut Reader<'_>, node: &Node, scope: &Scope) -> Option<KeyPart> {
    let text = reader.name(node)?;
    if text == "ip" {
        return Some(KeyPart::Ip { ipv6_prefix_bits: Key::IPV6_PREFIX_BITS_DEFAULT });
    }
    let read = if let Some(bits) = text.strip_prefix("ip/") {
        ip_prefix(node, bits)
    } else if let Some(segment) = text.strip_prefix("path.") {
        path_segment(node, segment, scope)
    } else if let Some(place) = text.strip_prefix("entry.").filter(|place| is_place(place)) {
        entry(node, place, scope)
    } else {
        return matching::attribute(reader, node).map(KeyPart::Attribute);
    };
    match read {
        Ok(part) => Some(part),
        Err(found) => {
            reader.note(*found);
            None
        }
    }
}

type Refused = Box<Diagnostic>;

fn ip_prefix(node: &Node, bits: &str) -> Result<KeyPart, Refused> {
    match bits.parse() {
        Ok(bits @ 1..=128) => Ok(KeyPart::Ip { ipv6_prefix_bits: bits }),
        _ => {
            let message = format!("`ip/{}` is not a part of an address", shown(bits));
            let hint = "write the bits of an IPv6 address, from `ip/1` to `ip/128`";
            Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
        }
    }
}

fn path_segment(node: &Node, segment: &str, scope: &Scope) -> Result<KeyPart, Refused> {
    if is_place(segment) {
        return match parse_number("segment", segment) {
            Ok(place @ 1..=PATH_SEGMENT_MAX) => {
                Ok(KeyPart::PathSegment { name: place.to_string().into(), place: before(place) })
            }
            _ => {
                let message = format!("there is no segment {} of a path", shown(segment));
                let hint = format!("segments count from `path.1` to `path.{PATH_SEGMENT_MAX}`");
                Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
            }
        };
    }
    if let Some((_, at)) = scope.captures.iter().find(|(name, _)| **name == *segment) {
        return Ok(KeyPart::PathSegment { name: segment.into(), place: *at });
    }
    let message = format!("the rule's path has no `{{{}}}`", shown(segment));
    let found = Diagnostic::error("bad-key", node.span, message);
    let known: Vec<String> = scope.captures.iter().map(|(name, _)| format!("path.{name}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(match (did_you_mean(&format!("path.{segment}"), &known), known.is_empty()) {
        (Some(hint), _) => found.hint(hint),
        (None, false) => found.hint(format!("its path has: {}", known.join(", "))),
        (None, true) => found.hint(format!(
            "name a segment in the rule's match, for example `path: /users/{{{}}}`",
            shown(segment)
        )),
    }
    .into())
}

fn entry(node: &Node, place: &str, scope: &Scope) -> Result<KeyPart, Refused> {
    let refused = |message: String, hint: String| {
        Err(Diagnostic::error("bad-key", node.span, message).hint(hint).into())
    };
    let Some(entries) = scope.entries else {
        let hint = "use the attribute's name, or write `entries` instead of `match`";
        return refused(format!("`entry.{}` needs `entries`", shown(place)), hint.to_owned());
    };
    match (parse_number("entry", place), entries) {
        (Ok(0) | Err(_), _) => {
            refused(format!("there is no entry {}", shown(place)), "entries count from `entry.1`".to_owned())
        }
        (Ok(place), EntryCount::Exactly(count)) if before(place) >= count => refused(
            format!("there is no entry {place}"),
            format!("the rule has {count}; the last is `entry.{count}`"),
        ),
        (Ok(place), _) => Ok(KeyPart::Entry(before(place))),
    }
}

fn is_place(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// From a place that counts from 1 to one that counts from 0.
fn before(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX) - 1
}

/// An attribute's name, checked. Shared by conditions, keys, costs and tiers.
pub(super) fn checked_attribute(text: &str) -> Result<Attribute, &'static str> {
    match text {
        "header." => Err("name the header: `header.x-api-key`"),
        _ => Ok(Attribute::named(text)),
    }
}
