//! The embedded config store: the conformance suite, its bounds, and files that it cannot open. Tests that kill a process or
//! limit the size of its files are in `tidegate-lab`, which has the program for it.

mod bad_files;
mod conformance;

use std::path::{Path, PathBuf};

use tidegate_server::config_store::{CONFIG_FILE, EmbeddedConfigStore};

use crate::support::Directory;

const CACHE_BYTES: usize = 8 << 20;

fn path(directory: &Directory) -> PathBuf {
    Path::new(directory.path()).join(CONFIG_FILE)
}

fn open(directory: &Directory) -> EmbeddedConfigStore {
    EmbeddedConfigStore::open(&path(directory), CACHE_BYTES).unwrap_or_else(|error| panic!("{error}"))
}
