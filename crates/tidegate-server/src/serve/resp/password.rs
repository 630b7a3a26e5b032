//! The password that clients have to say.

use std::fmt;
use std::hint::black_box;

/// A password. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<[u8]>);

impl Password {
    /// This one.
    pub fn new(password: &str) -> Self {
        Self(password.as_bytes().into())
    }

    /// Whether the guess is right. Takes as long for one that is nearly right as for any other of its length.
    pub(super) fn is(&self, guess: &[u8]) -> bool {
        let pairs = self.0.iter().zip(guess);
        let differing = pairs.fold(0, |differing, (own, guessed)| black_box(differing | (own ^ guessed)));
        differing == 0 && self.0.len() == guess.len()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}
