//! From a key to a tag: a keyed 64-bit hash, different in every store.
//!
//! No key is kept, so two keys with one tag share a counter. By chance it takes billions of keys: of 10 million,
//! two share a tag in about one of 400,000 stores. On purpose it takes the seed, which never leaves the process,
//! or a weakness of the hash: foldhash is made for speed and to keep hash tables out of trouble, and is not a
//! cryptographic hash. Its values may differ between its versions, so tags are for this process alone.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use tidegate_core::Charge;

/// The secret of a store's hash.
pub(super) struct Seed {
    per_hash: u64,
    shared: SharedSeed,
}

impl Seed {
    /// A seed that nobody can guess: from the standard library's own, which has it from the system.
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        // The model checker needs every run to be the same.
        let number = |which: u64| if cfg!(loom) { which } else { random.hash_one(which) };
        Self { per_hash: number(1), shared: SharedSeed::from_u64(number(2)) }
    }

    /// The tag of a charge's counter for its key. Never zero.
    #[inline]
    pub(super) fn tag(&self, charge: &Charge<'_>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.per_hash ^ charge.counter.id().get(), &self.shared);
        hasher.write(charge.key);
        hasher.finish().max(1)
    }
}
