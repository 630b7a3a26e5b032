//! From a key to a tag: a keyed 64-bit hash, different in every store.
//!
//! No key is kept, so two keys with one tag would share a counter. Nobody who does not know the seed can look
//! for such a pair, and by chance it takes billions of keys: of 10 million, two share a tag in about one of
//! 400,000 stores.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use tidegate_core::Charge;

/// The secret of a store's hash.
pub(super) struct Seed {
    per_hash: u64,
    shared: SharedSeed,
}

impl Seed {
    /// A seed that nobody can guess.
    pub(super) fn random() -> Self {
        // A system without randomness has no secret to give; the tags still differ. The model checker needs
        // every run to be the same.
        let random = || if cfg!(loom) { None } else { getrandom::u64().ok() };
        let per_hash = random().unwrap_or(0x9E37_79B9_7F4A_7C15);
        let shared = random().unwrap_or(0xD1B5_4A32_D192_ED03);
        Self { per_hash, shared: SharedSeed::from_u64(shared) }
    }

    /// The tag of a charge's counter for its key. Never zero.
    #[inline]
    pub(super) fn tag(&self, charge: &Charge<'_>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.per_hash ^ charge.counter.id().get(), &self.shared);
        hasher.write(charge.key);
        hasher.finish().max(1)
    }
}
