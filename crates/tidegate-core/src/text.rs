//! Reads and writes numbers, durations, words and text in the form that people write.

use std::fmt::{self, Write as _};

pub use crate::limit::{did_you_mean, parse_duration, parse_number, write_duration};

/// The longest prefix of `text` that has at most `bytes_max` bytes and ends between two characters.
///
/// ```
/// use tidegate_core::text::truncated;
///
/// assert_eq!(truncated("naïve", 3), "na");
/// assert_eq!(truncated("naïve", 4), "naï");
/// assert_eq!(truncated("naïve", 9), "naïve");
/// ```
pub fn truncated(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The text with each character that is not `plain` as the percent-encoded bytes of its UTF-8.
///
/// ```
/// use tidegate_core::text::percent_encode;
///
/// assert_eq!(percent_encode("größe 1", |c| c.is_ascii()), "gr%C3%B6%C3%9Fe 1");
/// ```
pub fn percent_encode(text: &str, plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if plain(c) {
            encoded.push(c);
        } else {
            // Writing to a string does not fail.
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| _ = write!(encoded, "%{byte:02X}"));
        }
    }
    encoded
}

/// The text such that it can stand between quotes in a header: quotes, backslashes and control characters are
/// percent-encoded.
///
/// ```
/// use tidegate_core::text::escape_quoted;
///
/// assert_eq!(escape_quoted("a \"b\"\n"), "a %22b%22%0A");
/// ```
pub fn escape_quoted(text: &str) -> String {
    percent_encode(text, |c| !matches!(c, '"' | '\\') && !c.is_control())
}

/// Text as a YAML scalar that every reader takes for this text: YAML 1.1 and 1.2, flow and block.
#[derive(Clone, Copy, Debug)]
pub struct YamlText<'a>(pub &'a str);

/// Text as a YAML scalar in double quotes.
#[derive(Clone, Copy, Debug)]
pub struct YamlQuoted<'a>(pub &'a str);

impl fmt::Display for YamlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain(self.0) { f.write_str(self.0) } else { YamlQuoted(self.0).fmt(f) }
    }
}

impl fmt::Display for YamlQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.0.chars().try_for_each(|c| write_escaped(c, f))?;
        f.write_char('"')
    }
}

/// Words that some YAML readers do not take for text.
const WORDS: [&str; 14] = [
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "null",
    "nan",
    "inf",
    "infinity",
    "undefined",
    "none",
];

/// Text that begins with a digit is not plain: it may be read as a number.
fn is_plain(text: &str) -> bool {
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let is_plain_throughout = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    starts_plain && is_plain_throughout && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Writes a character of a double-quoted scalar.
fn write_escaped(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match c {
        '"' | '\\' => write!(f, "\\{c}"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        c if is_printable(c) => f.write_char(c),
        c if u32::from(c) <= 0xffff => write!(f, "\\u{:04x}", u32::from(c)),
        c => write!(f, "\\U{:08x}", u32::from(c)),
    }
}

/// Whether YAML allows the character unescaped and people can see it and recognise it.
fn is_printable(c: char) -> bool {
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe;
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fdd0}'..='\u{fdef}' | '\u{a0}');
    !c.is_control() && !noncharacter && !invisible
}
