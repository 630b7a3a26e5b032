//! Files that tests change.

use std::fs;
use std::path::Path;

/// Writes a file as an editor may: into the one that is there.
pub fn write_in_place(path: &str, text: &str) {
    fs::write(path, text).unwrap();
}

/// Writes a file as a careful program does: beside it, and then into its place.
pub fn write_by_rename(path: &str, text: &str) {
    let beside = Path::new(path).with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}
