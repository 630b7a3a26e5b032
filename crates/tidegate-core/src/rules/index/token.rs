//! Tokens: short hashes that stand for what a rule requires.
//!
//! A token is a 128-bit SipHash under a random key that never leaves the index. Clients do not know the key, so they
//! cannot make two tokens collide. By chance tokens collide less often than memory fails. So equal tokens prove equal
//! values, and values are not compared again.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

/// Text up to this long is converted to lower case in one piece.
const LOWER_CASE_BYTES_INLINE: usize = 64;

/// Stands for a value of an attribute, a path pattern, an address block, or several of these together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Token([u64; 2]);

/// Makes tokens of one kind. Tokens of different kinds never collide.
#[derive(Clone, Debug)]
pub(super) struct TokenHasher(SipHasher13);

/// A token of all bytes added so far.
pub(super) struct TokenBuilder(SipHasher13);

/// A map by token.
pub(super) type TokenMap<V> = HashMap<Token, V, BuildHasherDefault<IdentityHasher>>;

/// A hasher for keys that are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Token {
    /// Stands for both. The order does not matter. The same token must not be combined twice, because that cancels it.
    pub(super) fn and(self, other: Self) -> Self {
        Self([self.0[0] ^ other.0[0], self.0[1] ^ other.0[1]])
    }
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// If there are several parts, those before the last are numbers that clients cannot choose.
    fn write_u64(&mut self, part: u64) {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part;
    }
}

impl TokenHasher {
    /// With a random key.
    pub(super) fn random() -> Self {
        let random = RandomState::new();
        Self(SipHasher13::new_with_keys(random.hash_one(0), random.hash_one(1)))
    }

    /// For another kind of tokens.
    pub(super) fn for_kind(&self, kind: &str, number: u32) -> Self {
        let mut hasher = self.0;
        hasher.write(kind.as_bytes());
        hasher.write_u32(number);
        let key = hasher.finish128();
        Self(SipHasher13::new_with_keys(key.h1, key.h2))
    }

    pub(super) fn token(&self, bytes: &[u8]) -> Token {
        let hash = self.0.hash(bytes);
        Token([hash.h1, hash.h2])
    }

    /// The same token for upper and lower case.
    pub(super) fn token_ignoring_case(&self, bytes: &[u8]) -> Token {
        let mut lower = [0; LOWER_CASE_BYTES_INLINE];
        if let Some(lower) = lower.get_mut(..bytes.len()) {
            lower.copy_from_slice(bytes);
            lower.make_ascii_lowercase();
            return self.token(lower);
        }
        let mut builder = self.start();
        builder.add_ignoring_case(bytes);
        builder.finish()
    }

    /// Starts a token that is built in steps.
    pub(super) fn start(&self) -> TokenBuilder {
        TokenBuilder(self.0)
    }
}

impl TokenBuilder {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn add_ignoring_case(&mut self, bytes: &[u8]) {
        let mut lower = [0; LOWER_CASE_BYTES_INLINE];
        for chunk in bytes.chunks(LOWER_CASE_BYTES_INLINE) {
            let lower = &mut lower[..chunk.len()];
            lower.copy_from_slice(chunk);
            lower.make_ascii_lowercase();
            self.0.write(lower);
        }
    }

    pub(super) fn finish(&self) -> Token {
        let hash = self.0.finish128();
        Token([hash.h1, hash.h2])
    }
}
