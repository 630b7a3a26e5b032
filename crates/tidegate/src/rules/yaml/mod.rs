//! YAML as a tree with positions: what is read of YAML 1.2, and within which bounds.
//!
//! One document of mappings, lists and scalars. Aliases stand for what their anchor holds; they share it, so a file
//! that multiplies itself with them takes no memory, and [`NODES_MAX`] bounds the work of whoever walks the tree.
//! What is not read says so: tags, merge keys, several documents, keys that are no text or stand twice.

mod node;
mod errors;
mod tree;

pub(crate) use node::{NodeKind, Node, Style};
pub(crate) use tree::read;

/// The largest file, in bytes.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// The most nodes of a file, with what its aliases stand for.
pub const NODES_MAX: usize = 2_000_000;
/// How deep lists and mappings may stand in each other.
pub const DEPTH_MAX: usize = 64;

/// Text of a file as a message quotes it: on one line, and not all of it if it is long.
pub(crate) fn printable(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).map(clean).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
