//! The engines that are compared.

use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use super::redb_engine::RedbEngine;
use crate::Bytes;

/// A storage engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// redb, as the server uses it.
    Redb,
    /// fjall.
    Fjall,
}

/// How an engine is opened.
#[derive(Clone, Copy)]
pub(super) struct EngineOptions<'a> {
    pub cache: Bytes,
    pub directory: &'a Path,
}

/// The filter of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct BuiltFilter {
    pub build_ns: u64,
    /// 0 if the store has more keys than fit in it.
    pub bytes: u64,
}

/// An open store. Errors are for people.
pub(super) trait Engine {
    /// Writes the overrides with these numbers in one commit that is synced.
    fn load(&self, numbers: Range<u64>) -> Result<(), String>;

    /// The size of the value of a key, if there is one.
    fn get(&self, key: &str) -> Result<Option<usize>, String>;

    /// Builds the filter of keys that the server has in front of its store. `None` if the engine is not one of the server.
    fn build_filter(&self, bytes_max: usize) -> Result<Option<BuiltFilter>, String>;

    /// Closes the store, after all work in its background.
    fn close(self: Box<Self>) -> Result<(), String>;
}

impl EngineName {
    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Redb => "redb",
            Self::Fjall => "fjall",
        }
    }

    pub(super) fn open(self, options: &EngineOptions<'_>) -> Result<Box<dyn Engine>, String> {
        match self {
            Self::Redb => Ok(Box::new(RedbEngine::open(options)?)),
            #[cfg(feature = "fjall")]
            Self::Fjall => Ok(Box::new(super::fjall_engine::FjallEngine::open(options)?)),
            #[cfg(not(feature = "fjall"))]
            Self::Fjall => {
                Err("this program was built without fjall (hint: build with --features fjall)".to_owned())
            }
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "redb" => Ok(Self::Redb),
            "fjall" => Ok(Self::Fjall),
            _ => Err(format!("unknown engine `{name}` (hint: redb or fjall)")),
        }
    }
}
