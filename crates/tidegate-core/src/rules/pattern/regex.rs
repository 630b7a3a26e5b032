//! Regular expressions.

use std::fmt;

use regex::RegexBuilder;

use super::error::quoted;
use super::value_pattern::check_length;
use super::{CaseSensitivity, PatternError};

/// The most memory of a compiled regular expression, and again for each thread that matches it.
pub const REGEX_COMPILED_BYTES_MAX: usize = 1 << 20;
/// How deep groups may be nested.
pub const REGEX_NESTING_MAX: u32 = 64;

/// The longest value that is compared with a regular expression. Matching takes linear time, but some expressions need
/// microseconds per byte, and requests may have values of 1 MiB.
pub const REGEX_VALUE_BYTES_MAX: usize = 4 << 10;

/// A regular expression that a whole value has to match. Matching takes linear time.
#[derive(Clone, Debug)]
pub struct Regex {
    text: Box<str>,
    case: CaseSensitivity,
    whole: regex::Regex,
}

impl Regex {
    /// Compiles the text.
    pub fn new(text: &str, case: CaseSensitivity) -> Result<Self, PatternError> {
        check_length(text)?;
        // First alone: `a)|(b` would be valid only inside the parentheses below.
        builder(text, case).nest_limit(REGEX_NESTING_MAX).build().map_err(|error| explain(text, &error))?;
        let whole = builder(&format!(r"\A(?:{text})\z"), case).build().map_err(|_| unclosed(text))?;
        Ok(Self { text: text.into(), case, whole })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether upper and lower case differ.
    pub fn case(&self) -> CaseSensitivity {
        self.case
    }

    /// Whether a value matches. `None` if the value is too long to be compared.
    pub(crate) fn is_match(&self, value: &str) -> Option<bool> {
        (!is_too_long(value)).then(|| self.whole.is_match(value))
    }
}

/// Whether a value is too long to be compared with a regular expression.
pub(crate) fn is_too_long(value: &str) -> bool {
    value.len() > REGEX_VALUE_BYTES_MAX
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.case) == (&other.text, other.case)
    }
}

impl Eq for Regex {}

impl fmt::Display for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn builder(text: &str, case: CaseSensitivity) -> RegexBuilder {
    let mut builder = RegexBuilder::new(text);
    builder.case_insensitive(case == CaseSensitivity::Insensitive);
    builder.size_limit(REGEX_COMPILED_BYTES_MAX).dfa_size_limit(REGEX_COMPILED_BYTES_MAX);
    builder
}

fn explain(text: &str, error: &regex::Error) -> PatternError {
    if let regex::Error::CompiledTooBig(_) = error {
        return PatternError::new(
            format!("the regex {} takes more than {REGEX_COMPILED_BYTES_MAX} bytes", quoted(text)),
            "use smaller numbers of repetitions, or `prefix` or `wildcard`",
        );
    }
    let message = error.to_string();
    // The message repeats the text, with a mark below it. The reason is in the last line.
    let reason = message.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let hint = if reason.contains("look-around") {
        "`(?=`, `(?!` and the like are not supported; `{ not: ... }` excludes values"
    } else if reason.contains("backreference") {
        r"a group cannot be referred to later, so `\1` is not supported"
    } else if reason.contains("Unicode") {
        "name the characters themselves, for example `[a-z]`"
    } else if reason.contains("nest") {
        return PatternError::new(
            format!("the groups of {} are nested too deep", quoted(text)),
            format!("groups may be nested at most {REGEX_NESTING_MAX} deep"),
        );
    } else {
        r"write `\` before a character that is meant as it is, for example `\.` or `\(`"
    };
    PatternError::new(format!("{} is not a regular expression: {reason}", quoted(text)), hint)
}

/// The only errors that the added parentheses can cause: an unclosed comment, and size.
fn unclosed(text: &str) -> PatternError {
    PatternError::new(
        format!("the regex {} ends within a comment, or is too large", quoted(text)),
        "leave out the comment",
    )
}
