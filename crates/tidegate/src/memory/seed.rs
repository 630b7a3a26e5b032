//! From a key to a tag: a keyed 64-bit hash, different in every store.
//!
//! No key is kept, so two keys with one tag share a counter. By chance it takes billions of keys: of 10 million,
//! two share a tag in about one of 400,000 stores. On purpose it takes the seed, which leaves the process only
//! with a snapshot, or a weakness of the hash: foldhash is made for speed and to keep hash tables out of trouble,
//! and is not a cryptographic hash. Its values may differ between its versions, so a seed that is written down
//! has a [check value](Seed::check_value) beside it, and tags are of use to a build only if that comes out the
//! same.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate_core::Charge;

/// Lengths of the keys that the check value is made of: one at least for every way in which the hash reads.
const CHECKED_KEY_LENGTHS: [u8; 12] = [0, 1, 3, 4, 7, 8, 15, 16, 17, 64, 128, 255];

/// The secret of a store's hash.
pub(super) struct Seed {
    words: [u64; 2],
    shared: SharedSeed,
}

impl Seed {
    /// A seed that nobody can guess: from the standard library's own, which has it from the system.
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        // The model checker needs every run to be the same.
        let number = |which: u64| if cfg!(loom) { which } else { random.hash_one(which) };
        Self::from_words([number(1), number(2)])
    }

    /// The seed that [`words`](Self::words) took apart.
    pub(super) fn from_words(words: [u64; 2]) -> Self {
        Self { words, shared: SharedSeed::from_u64(words[1]) }
    }

    /// All that makes this seed.
    pub(super) fn words(&self) -> [u64; 2] {
        self.words
    }

    /// A value that is the same if and, but for chance, only if this build gives the same tags under this seed.
    pub(super) fn check_value(&self) -> u64 {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        CHECKED_KEY_LENGTHS.iter().fold(0, |value: u64, length| {
            let key = &bytes[..usize::from(*length)];
            value.rotate_left(5) ^ self.tag_of(u64::from(*length), key)
        })
    }

    /// The tag of a charge's counter for its key. Never zero.
    #[inline]
    pub(super) fn tag(&self, charge: &Charge<'_>) -> u64 {
        self.tag_of(charge.counter.id().get(), charge.key)
    }

    #[inline]
    fn tag_of(&self, counter_id: u64, key: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.words[0] ^ counter_id, &self.shared);
        hasher.write(key);
        hasher.finish().max(1)
    }

    /// A number that says of these words that this store has seen them, and that nobody without the seed can work
    /// out: SipHash-2-4, which is made for that, unlike the hash of tags.
    pub(super) fn seal(&self, words: [u64; 3]) -> u128 {
        let [key0, key1] = self.words;
        let mut hasher = SipHasher24::new_with_keys(key0, key1);
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish128().as_u128()
    }
}
