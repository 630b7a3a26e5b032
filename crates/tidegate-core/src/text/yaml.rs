//! Text as YAML.

use std::fmt::{self, Write as _};

/// Text as a scalar that reads as this text and as nothing else, in YAML 1.1 as in 1.2, in flow and in block.
#[derive(Clone, Copy, Debug)]
pub struct YamlText<'a>(pub &'a str);

/// The same between double quotes in any case.
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

/// Words that some reader of YAML takes for something else than text.
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

/// What begins with a digit may be a number.
fn is_plain(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let goes_on = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    begins && goes_on && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// A character between double quotes.
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

/// What may stand in YAML as it is, less what cannot be seen or told from something else.
fn is_printable(c: char) -> bool {
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe;
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fdd0}'..='\u{fdef}' | '\u{a0}');
    !c.is_control() && !noncharacter && !invisible
}
