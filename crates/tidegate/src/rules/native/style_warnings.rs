//! Warnings about spelling that is legal, but most likely a mistake.

use tidegate_core::rules::{Attribute, Net};

use super::spelling::{self, ValuePlace};
use crate::rules::diagnostic::Diagnostic;
use crate::rules::yaml::{Node, Reader, printable};

/// The attributes with a special meaning.
const RESERVED_ATTRIBUTES: [&str; 6] =
    ["method", "path", "host", "ip", "remote_address", "masked_remote_address"];

/// Warns about a `*` in a literal value, and about methods and paths in an odd spelling. `{ exact: ... }` says
/// that it is intended.
pub(super) fn warn_value(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) {
    let Some(text) = node.text() else { return };
    if text.contains('*') && !matches!(attribute, Attribute::Path | Attribute::Address(_)) {
        let message = format!("the `*` in `{}` is a plain character", printable(text));
        let hint = format!(
            "write `{{ wildcard: \"{0}\" }}` if it should match anything, or else `{{ exact: \"{0}\" }}`",
            printable(text)
        );
        reader.push(Diagnostic::warning("star", node.span, message).hint(hint));
    }
    warn_spelling(reader, node, attribute, ValuePlace::Alone);
}

/// Warns about an item of a list, which cannot say that a star is intended.
pub(super) fn warn_item(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) {
    warn_spelling(reader, node, attribute, ValuePlace::InList);
}

fn warn_spelling(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute, place: ValuePlace) {
    warn_block_as_text(reader, node, attribute, place);
    warn_method_case(reader, node, attribute);
    spelling::warn_method(reader, node, attribute, place);
    spelling::warn_path(reader, node, attribute, place);
    #[cfg(feature = "identity")]
    warn_path_form(reader, node, attribute, place);
}

/// Warns about a path that is not in its normal form, so that no path of a real request matches it.
#[cfg(feature = "identity")]
fn warn_path_form(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute, place: ValuePlace) {
    let Some(text) = node.text().filter(|_| *attribute == Attribute::Path) else { return };
    // Other text is no path, which is an error or has a warning of its own.
    if !text.starts_with('/') || text.contains(['?', '#']) || spelling::has_placeholder(text) {
        return;
    }
    let Some(hint) = spelling::normal_form_hint(text) else { return };
    let message = format!(
        "forward auth and layers normalize paths before they compare them, so `{}` never matches there",
        printable(text)
    );
    let intended = place.how_to_intend(text);
    let hint = format!("{hint}. Or else, if callers send this path to the other listeners, {intended}");
    reader.push(Diagnostic::warning("path-not-normal", node.span, message).hint(hint));
}

/// Warns about a matcher that needs the slash after a directory, which the normal form of its path does not have.
#[cfg(feature = "identity")]
pub(super) fn warn_directory(reader: &mut Reader<'_>, node: &Node, matcher: &str, attribute: &Attribute) {
    let Some(text) = node.text().filter(|_| *attribute == Attribute::Path) else { return };
    let Some(directory) = spelling::directory(matcher, text) else { return };
    let (shown, pattern) = (printable(directory), spelling::directory_pattern(matcher, directory));
    let message = format!(
        "forward auth and layers normalize paths before they compare them, so `{shown}/` becomes `{shown}` there, which this does not match"
    );
    let hint = format!(
        "write `{}`, which matches the directory and what is below it. Or else, to match only what is below it, end a regex \
         with `/.+`",
        printable(&pattern)
    );
    reader.push(Diagnostic::warning("path-not-normal", node.span, message).hint(hint));
}

/// Warns about a block of addresses for an attribute that is compared as text, so that no address matches it.
fn warn_block_as_text(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute, place: ValuePlace) {
    let Some(text) = node.text() else { return };
    let is_text = matches!(attribute, Attribute::Header(_) | Attribute::Plain(_));
    if is_text && text.contains('/') && Net::parse(text).is_ok() {
        let message =
            format!("`{attribute}` is compared as text, so no address matches `{}`", printable(text));
        let intended = place.how_to_intend(text);
        let hint =
            format!("send the address as `ip` and match `ip: {}`. Or else {intended}", printable(text));
        reader.push(Diagnostic::warning("cidr-as-text", node.span, message).hint(hint));
    }
}

/// Warns about a method in lower case.
fn warn_method_case(reader: &mut Reader<'_>, node: &Node, attribute: &Attribute) {
    let Some(text) = node.text() else { return };
    if *attribute == Attribute::Method && text.chars().any(|c| c.is_ascii_lowercase()) {
        let message = format!("methods are written in upper case, but this one is `{}`", printable(text));
        let hint =
            format!("write `{}`; case makes no difference here", printable(&text.to_ascii_uppercase()));
        reader.push(Diagnostic::warning("odd-case", node.span, message).hint(hint));
    }
}

/// Warns about names that differ from a special one only by case, and about headers in mixed case.
pub(super) fn warn_attribute_case(reader: &mut Reader<'_>, node: &Node) {
    let Some(text) = node.text() else { return };
    let lower = text.to_ascii_lowercase();
    if lower == text {
        return;
    }
    if RESERVED_ATTRIBUTES.contains(&lower.as_str())
        || (lower.starts_with("header.") && !text.starts_with("header."))
    {
        let message = format!("`{}` is an attribute without a special meaning", printable(text));
        let hint = format!("did you mean `{}`?", printable(&lower));
        return reader.push(Diagnostic::warning("odd-case", node.span, message).hint(hint));
    }
    let Some(header) = text.strip_prefix("header.") else { return };
    if !header.split('-').all(has_uniform_case) {
        let message = format!("the case of `{}` makes no difference", printable(header));
        let hint = format!("write `{}`", printable(&lower));
        reader.push(Diagnostic::warning("odd-case", node.span, message).hint(hint));
    }
}

/// `plan`, `Plan` or `PLAN`, but not `pLan`.
fn has_uniform_case(word: &str) -> bool {
    let rest = word.get(1..).unwrap_or_default();
    let lower = !rest.bytes().any(|b| b.is_ascii_uppercase());
    let upper = !word.bytes().any(|b| b.is_ascii_lowercase());
    lower || upper
}
