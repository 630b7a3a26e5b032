//! Which requests a limit counts although they are denied.

use std::fmt;
use std::str::FromStr;

use crate::LimitError;

/// Which requests a limit counts although they are denied. By default none: a request is charged whole or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CountDenied {
    /// None.
    #[default]
    Never,
    /// All of them, also those that are only over another limit.
    Always,
    /// Those that are over this limit. If a request is over another limit only, this limit does not count it, whether
    /// the request is denied or not: envoyproxy/ratelimit with `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`.
    IfOver,
}

impl CountDenied {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Never, Self::Always, Self::IfOver];

    /// As it is written in limits.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "false",
            Self::Always => "true",
            Self::IfOver => "if_over",
        }
    }
}

impl fmt::Display for CountDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CountDenied {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let known = Self::ALL.into_iter().find(|value| value.as_str() == text);
        known.ok_or_else(|| {
            LimitError::new(
                format!("count_denied `{text}` is not true, false or if_over"),
                "write true, false or if_over",
            )
        })
    }
}
