//! Booleans and numbers as in the YAML of envoyproxy/ratelimit, which is version 1.1: `yes` is true, and
//! `010` is eight.

use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Node, NodeKind, Reader, printable};

/// Text. A missing value is empty, as in envoyproxy/ratelimit.
pub(super) fn text<'n>(reader: &mut Reader<'_>, node: &'n Node) -> Option<&'n str> {
    match node.kind {
        NodeKind::Null => Some(""),
        NodeKind::Scalar { .. } => reader.text(node),
        _ => {
            reader.wrong_type_hint(node, "text", "write one value, in quotes if it begins with `[` or `{`");
            None
        }
    }
}

/// `true`, `yes`, `on` and so on.
pub(super) fn boolean(reader: &mut Reader<'_>, node: &Node) -> Option<bool> {
    match node.plain() {
        Some("y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") => Some(true),
        Some("n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") => Some(false),
        None if matches!(node.kind, NodeKind::Null) => Some(false),
        _ => reader.boolean(node),
    }
}

/// A whole number of 32 bits that is not negative.
pub(super) fn number(reader: &mut Reader<'_>, node: &Node) -> Option<u32> {
    let Some(text) = node.plain() else {
        match node.text() {
            Some(_) => reader.wrong_type_hint(node, "a number", "remove the quotes"),
            None => reader.wrong_type_hint(node, "a number", "write for example 100"),
        }
        return None;
    };
    let number = parse(text);
    if number.is_none() {
        let message = format!("`{}` is not a whole number from 0 to {}", printable(text), u32::MAX);
        reader.push(Diagnostic::error("not-a-number", node.span, message).hint("write for example 100"));
    }
    number
}

fn parse(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    let signed = digits.starts_with(['+', '-']);
    if signed { None } else { u32::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_those_of_yaml_1_1() {
        let cases = [
            ("0", Some(0)),
            ("500", Some(500)),
            ("+7", Some(7)),
            ("1_000", Some(1000)),
            ("010", Some(8)),
            ("0o10", Some(8)),
            ("0x10", Some(16)),
            ("0b101", Some(5)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("-1", None),
            ("+-1", None),
            ("0x-1", None),
            ("1.0", None),
            ("1e3", None),
            ("08", None),
            ("", None),
            ("_", None),
            ("many", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse(text), number, "{text}");
        }
    }
}
