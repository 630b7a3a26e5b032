//! Opens the files that the server reads: settings, secrets, certificates and its lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it. Links are followed.
///
/// Anything else is an error: reading a FIFO or a terminal waits for a writer, maybe forever.
pub fn open(path: &Path) -> io::Result<File> {
    // Without this flag, opening a FIFO waits.
    open_with(OpenOptions::new().read(true), OFlags::NONBLOCK, path)
}

/// Opens a regular file with these options and flags.
pub fn open_with(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}
