//! The values that a variable may have. envoyproxy/ratelimit does not start with another one, and neither does Tidegate: a
//! value such as `yes` would otherwise turn TLS off.

use super::Environment;
use super::table::{Use, VARIABLES, Variable};

/// The largest number of characters of a value that an error shows.
const SHOWN_CHARS_MAX: usize = 64;

/// What a variable must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    Anything,
    /// As for Go's `strconv.ParseBool`.
    Bool,
    Port,
    Number,
    /// One of these words, in lower or upper case.
    OneOf(&'static str),
}

/// An error for each variable with a value that is not accepted. `is_set` tells whether another source has a setting.
pub(super) fn problems(environment: &impl Environment, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let is_read = |variable: &&Variable| matches!(variable.used, Use::Setting(setting) if !is_set(setting));
    let problem = |variable: &Variable| {
        let value = environment(variable.name)?;
        let accepted = Accepted::by(variable.name);
        (!accepted.includes(&value)).then(|| {
            let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
            format!(
                "the environment variable {} of envoyproxy/ratelimit is `{}` (hint: it must be {})",
                variable.name,
                shown.escape_debug(),
                accepted.text()
            )
        })
    };
    VARIABLES.iter().filter(is_read).filter_map(problem).collect()
}

/// Whether a value is true for Go's `strconv.ParseBool`.
pub(super) fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Whether a value is false for Go's `strconv.ParseBool`.
pub(super) fn is_false(value: &str) -> bool {
    matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

impl Accepted {
    /// What the variable with this name must be.
    fn by(name: &str) -> Self {
        match name {
            "GRPC_SERVER_USE_TLS"
            | "REDIS_TLS"
            | "RUNTIME_IGNOREDOTFILES"
            | "MERGE_DOMAIN_CONFIG"
            | "SHADOW_MODE"
            | "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" => Self::Bool,
            "PORT" | "GRPC_PORT" => Self::Port,
            "NEAR_LIMIT_RATIO" => Self::Number,
            "REDIS_TYPE" => Self::OneOf("single, cluster or sentinel"),
            "REDIS_SOCKET_TYPE" => Self::OneOf("tcp or unix"),
            "LOG_LEVEL" => Self::OneOf("trace, debug, info, warn, warning, error, fatal or panic"),
            _ => Self::Anything,
        }
    }

    fn includes(self, value: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Bool => is_true(value) || is_false(value),
            Self::Port => value.parse::<u16>().is_ok(),
            Self::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            Self::OneOf(words) => {
                let mut words = words.split([',', ' ']).filter(|word| !word.is_empty() && *word != "or");
                words.any(|word| value.eq_ignore_ascii_case(word))
            }
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Anything => "any text",
            Self::Bool => "true or false, or 1, t, T, TRUE, True, 0, f, F, FALSE, False",
            Self::Port => "a port, from 0 to 65535",
            Self::Number => "a number such as 0.8",
            Self::OneOf(words) => words,
        }
    }
}
