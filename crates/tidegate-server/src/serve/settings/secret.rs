//! Secrets, which are never printed.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::Arc;

/// A password or a token. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// The secret is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmptySecret;

impl Secret {
    /// Its length.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The secret itself, to send it to a server.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the guess is right. The time depends only on the length of the guess, not on how much of it is right.
    pub fn matches(&self, guess: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own.iter().zip(guess).fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
        differing == 0 && own.len() == guess.len()
    }
}

impl FromStr for Secret {
    type Err = EmptySecret;

    // Only emptiness is checked, because clap prints a value that it rejects.
    fn from_str(text: &str) -> Result<Self, EmptySecret> {
        if text.is_empty() { Err(EmptySecret) } else { Ok(Self(text.into())) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Display for EmptySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is empty (hint: remove the setting, or create a secret with `openssl rand -hex 32`)")
    }
}

impl std::error::Error for EmptySecret {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_matches() {
        let secret: Secret = "s3cret".parse().unwrap();
        assert!(secret.matches(b"s3cret"));
        for guess in ["", "s", "s3cre", "s3cret1", "S3cret", "s3creu", "t3cret"] {
            assert!(!secret.matches(guess.as_bytes()), "{guess}");
        }
        assert_eq!("".parse::<Secret>(), Err(EmptySecret));
    }

    #[test]
    fn debug_hides_the_secret() {
        assert_eq!(format!("{:?}", "s3cret".parse::<Secret>()), "Ok(Secret(..))");
    }
}
