//! Opens files that users name.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Opens a regular file to read it. Links are followed.
///
/// Anything else is an error: opening a FIFO waits for a writer, maybe forever, and a device may never end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}
