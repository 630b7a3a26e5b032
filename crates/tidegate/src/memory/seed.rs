//! From a key to a tag: a keyed 64-bit hash, different in every store.
//!
//! Keys are not stored, so two keys with the same tag share a counter. By chance that takes billions of keys: with 10
//! million keys, two share a tag in about one of 400,000 stores. To cause it on purpose takes the seed, which leaves
//! the process only in a snapshot, or a weakness of the hash: foldhash is made for speed and for hash tables, and is
//! not a cryptographic hash. Its values may differ between its versions, so a stored seed has a [check
//! value](Seed::check_value). A build can use stored tags only if it computes the same check value.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate_core::{Charge, CounterId};

/// Lengths of the keys in the check value: at least one for every code path of the hash.
const CHECKED_KEY_LENGTHS: [u8; 12] = [0, 1, 3, 4, 7, 8, 15, 16, 17, 64, 128, 255];

/// The secret of a store's hash.
pub(crate) struct Seed {
    words: [u64; 2],
    shared: SharedSeed,
}

impl Seed {
    /// A seed that cannot be guessed, from the standard library's random state.
    pub(crate) fn random() -> Self {
        let random = RandomState::new();
        // Loom needs every run to be the same.
        let number = |which: u64| if cfg!(loom) { which } else { random.hash_one(which) };
        Self::from_words([number(1), number(2)])
    }

    /// The seed with these [`words`](Self::words).
    pub(super) fn from_words(words: [u64; 2]) -> Self {
        Self { words, shared: SharedSeed::from_u64(words[1]) }
    }

    /// The words of this seed.
    pub(super) fn words(&self) -> [u64; 2] {
        self.words
    }

    /// Equal if this build gives the same tags under this seed. Different otherwise, except by chance.
    pub(super) fn check_value(&self) -> u64 {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        CHECKED_KEY_LENGTHS.iter().fold(0, |value: u64, length| {
            let key = &bytes[..usize::from(*length)];
            value.rotate_left(5) ^ self.tag_of(u64::from(*length), key)
        })
    }

    /// The tag of a key of a counter.
    #[inline(always)]
    pub(super) fn tag(&self, counter: CounterId, key: &[u8]) -> u64 {
        self.tag_of(counter.get(), key)
    }

    /// The tag of a charge's counter for its key.
    #[inline(always)]
    pub(super) fn tag_of_charge(&self, charge: &Charge<'_>) -> u64 {
        self.tag(charge.counter.id(), charge.key)
    }

    /// The tag of a key of whatever has this number.
    #[inline(always)]
    pub(crate) fn tag_of(&self, number: u64, key: &[u8]) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.words[0] ^ number, &self.shared);
        hasher.write(key);
        hasher.finish()
    }

    /// A seal over these words, which cannot be computed without the seed. It uses SipHash-2-4, which is made for that,
    /// unlike the hash of tags.
    pub(super) fn seal(&self, words: &[u64]) -> u128 {
        let [key0, key1] = self.words;
        let mut hasher = SipHasher24::new_with_keys(key0, key1);
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish128().as_u128()
    }
}
