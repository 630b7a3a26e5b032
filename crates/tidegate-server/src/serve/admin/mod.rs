//! HTTP for operators: what is loaded, and what is to be changed by hand.

/// Whether the admin listener has this path; if so, what to say to who asks for it elsewhere.
pub(super) fn has(_path: &str) -> Option<String> {
    None
}
