//! From a key to a tag: a keyed 64-bit hash, different in every store.
//!
//! No key is kept, so two keys with one tag share a counter. By chance it takes billions of keys: of 10 million,
//! two share a tag in about one of 400,000 stores. On purpose it takes the seed, which never leaves the process,
//! or a weakness of the hash: foldhash is made for speed and to keep hash tables out of trouble, and is not a
//! cryptographic hash. Its values may differ between its versions, so tags are for this process alone.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate_core::Charge;

/// The secret of a store's hash.
pub(super) struct Seed {
    numbers: [u64; 2],
    shared: SharedSeed,
}

impl Seed {
    /// A seed that nobody can guess: from the standard library's own, which has it from the system.
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        // The model checker needs every run to be the same.
        let number = |which: u64| if cfg!(loom) { which } else { random.hash_one(which) };
        Self::of([number(1), number(2)])
    }

    /// The seed that these numbers are.
    pub(super) fn of(numbers: [u64; 2]) -> Self {
        Self { numbers, shared: SharedSeed::from_u64(numbers[1]) }
    }

    /// The tag of a charge's counter for its key. Never zero.
    #[inline]
    pub(super) fn tag(&self, charge: &Charge<'_>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.numbers[0] ^ charge.counter.id().get(), &self.shared);
        hasher.write(charge.key);
        hasher.finish().max(1)
    }

    /// A number that says of these words that this store has seen them, and that nobody without the seed can work
    /// out: SipHash-2-4, which is made for that, unlike the hash of tags.
    pub(super) fn seal(&self, words: [u64; 3]) -> u128 {
        let [key0, key1] = self.numbers;
        let mut hasher = SipHasher24::new_with_keys(key0, key1);
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish128().as_u128()
    }
}
