//! YAML as a tree with positions: the supported part of YAML 1.2, and its bounds.
//!
//! The parser is a crate. The tree is written by hand, because every value needs a position for messages, and
//! the usual YAML values have none.
//!
//! A file is one document of mappings, lists and scalars. An alias shares the value of its anchor, so a file
//! that multiplies itself with aliases takes no memory, and [`NODES_MAX`] bounds the work of a walk over the
//! tree. Everything else is an error: tags, several documents, and keys that are not text or occur twice.
//! Merge keys (`<<`) are supported.

mod errors;
mod fields;
mod metadata;
mod node;
mod reader;
mod scalars;
mod tree;
mod unclosed;

pub(crate) use fields::{Field, Fields};
pub(crate) use metadata::{decimal, read_metadata};
pub(crate) use node::{Node, NodeKind, Style};
pub(crate) use reader::Reader;
pub(crate) use tree::read;

/// The size of a file at most, in bytes.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Nodes of a file at most, where each alias counts as a full copy.
pub const NODES_MAX: usize = 2_000_000;
/// How deep lists and mappings may be nested.
pub const DEPTH_MAX: usize = 64;

/// Text of a file as messages quote it: on one line, and truncated if it is long.
pub(crate) fn printable(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut printed: String = text.chars().take(SHOWN_CHARS_MAX).map(clean).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        printed.push('…');
    }
    printed
}
