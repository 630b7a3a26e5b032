//! What is known of one connection.

use super::commands::ThrottleCache;
use super::parse::AuthState;

/// The longest name of a client or its library, in bytes: it is text for people.
pub(super) const NAME_BYTES_MAX: usize = 256;

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number, from 1.
    pub id: u64,
    /// Whether it may ask.
    pub auth: AuthState,
    /// What the client calls itself.
    pub name: Vec<u8>,
    /// What it is written with.
    pub library: Vec<u8>,
    /// And which version of that.
    pub library_version: Vec<u8>,
    /// Rates that it asked with last.
    pub throttle_cache: ThrottleCache,
}

impl Session {
    /// Of a connection that was just opened.
    pub fn new(id: u64, trust: AuthState) -> Self {
        Self {
            id,
            auth: trust,
            name: Vec::new(),
            library: Vec::new(),
            library_version: Vec::new(),
            throttle_cache: ThrottleCache::default(),
        }
    }
}
