//! A part of something that is being built.

use std::fmt;

/// A part of something that is being built: one that was given, or one to be made when it is needed.
pub(crate) enum Part<T> {
    Given(T),
    Made(fn() -> T),
}

impl<T> Part<T> {
    pub(crate) fn get(self) -> T {
        match self {
            Self::Given(part) => part,
            Self::Made(make) => make(),
        }
    }
}

impl<T> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "given",
            Self::Made(_) => "made",
        })
    }
}
