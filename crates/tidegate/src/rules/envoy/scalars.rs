//! Booleans and numbers as in the YAML of envoyproxy/ratelimit, which is version 1.1: `yes` is true, and
//! `010` is eight.

use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{self, Node, NodeKind, Reader, printable};

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
    match node.plain().and_then(boolean_word) {
        None if matches!(node.kind, NodeKind::Null) => Some(false),
        None => reader.boolean(node),
        truth => truth,
    }
}

/// A word that means true or false.
pub(super) fn boolean_word(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
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
    let number = whole_number(text).and_then(|number| u32::try_from(number).ok());
    if number.is_none() {
        let message = format!("`{}` is not a whole number from 0 to {}", printable(text), u32::MAX);
        reader.push(Diagnostic::error("not-a-number", node.span, message).hint("write for example 100"));
    }
    number
}

/// A number of any kind, as a double. A text that begins with `_` is not a number.
pub(super) fn any_number(text: &str) -> Option<f64> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    let (sign, size) = text.strip_prefix('-').map_or((1.0, text), |size| (-1.0, size));
    match whole_number(size).filter(|_| !text.starts_with("-+")) {
        #[allow(clippy::cast_precision_loss, reason = "Envoy has only doubles")]
        Some(number) => Some(sign * number as f64),
        None => yaml::decimal(&text.replace('_', "")),
    }
}

fn whole_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, &digits[..]),
    };
    let signed = digits.starts_with(['+', '-']);
    if signed { None } else { u64::from_str_radix(digits, radix).ok() }
}

#[cfg(test)]
mod tests {
    use super::{any_number, whole_number};

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
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
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
            assert_eq!(whole_number(text), number, "{text}");
        }
    }

    #[test]
    fn numbers_of_any_kind() {
        let cases = [
            ("7", Some(7.0)),
            ("-7", Some(-7.0)),
            ("+7", Some(7.0)),
            ("1_000", Some(1000.0)),
            ("010", Some(8.0)),
            ("-0x10", Some(-16.0)),
            ("08", Some(8.0)),
            ("1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("-1e-3", Some(-0.001)),
            ("18446744073709551616", Some(18_446_744_073_709_551_616.0)),
            ("1e999", None),
            (".inf", None),
            (".nan", None),
            ("_1", None),
            ("1.2.3", None),
            ("-", None),
            ("--1", None),
            ("-+1", None),
            ("inf", None),
            ("", None),
        ];
        for (text, number) in cases {
            assert_eq!(any_number(text), number, "{text}");
        }
    }
}
