//! A part of something that is being built.

use std::fmt;

/// A part of something that is being built: one that was given, or one to be made when it is needed.
pub(crate) enum BuilderValue<T> {
    Set(T),
    Default(fn() -> T),
}

impl<T> BuilderValue<T> {
    pub(crate) fn into_value(self) -> T {
        match self {
            Self::Set(part) => part,
            Self::Default(make) => make(),
        }
    }
}

impl<T> fmt::Debug for BuilderValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Set(_) => "given",
            Self::Default(_) => "made",
        })
    }
}
