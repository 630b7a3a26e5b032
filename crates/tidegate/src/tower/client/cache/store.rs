//! The stored responses, bounded in bytes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use super::entry::{CacheableRequest, Entry};

/// The most responses, whatever their size, so that the search for the least recently used one stays short.
const ENTRIES_MAX: usize = 4_096;
/// A response may take at most this part of the cache.
const ENTRY_SHARE: usize = 8;

/// Responses by URI, one for each.
#[derive(Debug)]
pub(super) struct CacheStore {
    state: Mutex<CacheState>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<Box<str>, StoredEntry, RandomState>,
    bytes: usize,
    uses: u64,
}

#[derive(Debug)]
struct StoredEntry {
    entry: Entry,
    bytes: usize,
    /// The number of its last use.
    used: u64,
}

impl CacheStore {
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), bytes_max }
    }

    /// The longest body that is worth recording.
    pub fn body_bytes_max(&self) -> usize {
        self.bytes_max / ENTRY_SHARE
    }

    /// The response to a request, fresh or not.
    pub fn get(&self, request: &CacheableRequest) -> Option<Entry> {
        let mut state = self.lock();
        state.uses += 1;
        let used = state.uses;
        let stored = state.entries.get_mut(&request.key)?;
        if !stored.entry.matches(request) {
            return None;
        }
        stored.used = used;
        Some(stored.entry.clone())
    }

    /// Stores a response, in place of the one to the same URI. Removes those that were not used for longest.
    pub fn insert(&self, key: Box<str>, entry: Entry) {
        let bytes = entry.bytes(&key);
        let mut state = self.lock();
        state.remove(&key);
        if bytes > self.body_bytes_max() {
            return;
        }
        while state.bytes + bytes > self.bytes_max || state.entries.len() >= ENTRIES_MAX {
            let oldest =
                state.entries.iter().min_by_key(|(_, stored)| stored.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            state.remove(&oldest);
        }
        state.uses += 1;
        let used = state.uses;
        state.bytes += bytes;
        state.entries.insert(key, StoredEntry { entry, bytes, used });
    }

    /// Removes the response to a URI.
    pub fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn remove(&mut self, key: &str) {
        if let Some(stored) = self.entries.remove(key) {
            self.bytes -= stored.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use tidegate_core::Timestamp;

    use super::*;

    #[test]
    fn the_cache_is_bounded_in_bytes_and_keeps_what_is_used() {
        let store = CacheStore::new(64 * 1024);
        let request = |uri: &str| {
            let (parts, ()) = Request::get(uri).body(()).unwrap().into_parts();
            CacheableRequest::read(&parts).unwrap()
        };
        let (parts, ()) =
            Response::builder().header("cache-control", "max-age=60").body(()).unwrap().into_parts();
        let insert = |uri: &str, length: usize| {
            let mut entry = Entry::new(&parts, &request(uri), Timestamp::from_nanos(0)).unwrap();
            entry.body = vec![b'x'; length].into();
            store.insert(request(uri).key, entry);
        };
        for number in 0..200 {
            insert(&format!("http://h/{number}"), 4_000);
            assert!(store.get(&request("http://h/0")).is_some(), "used each time");
            assert!(store.bytes() <= 64 * 1024);
        }
        assert!(store.get(&request("http://h/1")).is_none());
        // Larger than its share. The older response is gone, because it is no longer the current one.
        insert("http://h/0", 9_000);
        assert!(store.get(&request("http://h/0")).is_none());
    }
}
