//! Text as YAML.

use std::fmt::Write as _;

/// `text` as a scalar that reads as this text and as nothing else, in YAML 1.1 as in 1.2, in flow and in block.
pub(super) fn quoted(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_printable(c) => quoted.push(c),
            c if u32::from(c) <= 0xff => _ = write!(quoted, "\\x{:02x}", u32::from(c)),
            c if u32::from(c) <= 0xffff => _ = write!(quoted, "\\u{:04x}", u32::from(c)),
            c => _ = write!(quoted, "\\U{:08x}", u32::from(c)),
        }
    }
    quoted.push('"');
    quoted
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

fn is_plain(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let goes_on = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    begins && goes_on && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// What may stand in YAML as it is, less what cannot be seen or told from something else.
fn is_printable(c: char) -> bool {
    let noncharacter = u32::from(c) & 0xfffe == 0xfffe;
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fdd0}'..='\u{fdef}' | '\u{a0}');
    !c.is_control() && !noncharacter && !invisible
}
