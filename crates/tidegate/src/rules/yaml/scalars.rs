//! Numbers, booleans, durations and text.

use tidegate_core::LimitError;
use tidegate_core::text::{did_you_mean, parse_duration, parse_number};

use super::reader::Reader;
use super::{Node, printable};
use crate::rules::diagnostic::Diagnostic;

impl Reader<'_> {
    /// Text, whatever it looks like: `1.0` and `true` are text where text is expected.
    pub fn text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let text = node.text();
        if text.is_none() {
            self.wrong_type(node, "text");
        }
        text
    }

    /// Text that is not empty.
    pub fn name<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let text = self.text(node)?;
        if text.trim().is_empty() {
            self.push(Diagnostic::error("empty-name", node.span, "a name cannot be empty"));
            return None;
        }
        Some(text)
    }

    /// A whole number that is not negative; `1_000` is fine. `field` is its name in messages.
    pub fn number(&mut self, field: &str, node: &Node) -> Option<u64> {
        let Some(text) = node.plain() else {
            match node.text() {
                Some(_) => self.wrong_type_hint(node, "a number", "remove the quotes"),
                None => self.wrong_type(node, "a number"),
            }
            return None;
        };
        match parse_number(field, text) {
            Ok(number) => Some(number),
            Err(error) => {
                self.limit_error("not-a-number", node, &error);
                None
            }
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, node: &Node) -> Option<bool> {
        match node.plain() {
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            _ => {
                self.wrong_type_hint(node, "true or false", "write `true` or `false`, without quotes");
                None
            }
        }
    }

    /// A duration like `500ms` or `minute`, in nanoseconds.
    pub fn duration_ns(&mut self, node: &Node) -> Option<u64> {
        let Some(text) = node.text() else {
            self.wrong_type_hint(node, "a duration", "write for example 500ms, 30s, 1m, 2h or 30d");
            return None;
        };
        match parse_duration(text) {
            Ok(nanos) => Some(nanos),
            Err(error) => {
                self.limit_error("not-a-duration", node, &error);
                None
            }
        }
    }

    /// One of these words. `what` is its name in messages.
    pub fn keyword<T: Copy>(&mut self, what: &str, node: &Node, keywords: &[(&str, T)]) -> Option<T> {
        let text = self.text(node)?;
        if let Some((_, value)) = keywords.iter().find(|(keyword, _)| *keyword == text) {
            return Some(*value);
        }
        let expected: Vec<&str> = keywords.iter().map(|(keyword, _)| *keyword).collect();
        self.unknown_keyword(what, node, text, &expected);
        None
    }

    /// The same. A word that other tools use is reported with the word that is used here: the most similar known
    /// word would often be the wrong one.
    pub fn keyword_or_synonym<T: Copy + PartialEq>(
        &mut self,
        what: &str,
        node: &Node,
        keywords: &[(&str, T)],
        synonyms: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node)?;
        let synonym = synonyms.iter().find(|(synonym, _)| *synonym == text);
        let meant = synonym.and_then(|(_, meant)| keywords.iter().find(|(_, value)| value == meant));
        let Some((keyword, _)) = meant else { return self.keyword(what, node, keywords) };
        let message = format!("unknown {what} `{}`", printable(text));
        let hint = format!("here it is called `{keyword}`");
        self.push(Diagnostic::error("unknown-word", node.span, message).hint(hint));
        None
    }

    /// Reports a text that is not one of the expected words.
    pub fn unknown_keyword(&mut self, what: &str, node: &Node, text: &str, expected: &[&str]) {
        let hint = did_you_mean(text, expected)
            .unwrap_or_else(|| format!("expected one of: {}", expected.join(", ")));
        let message = format!("unknown {what} `{}`", printable(text));
        self.push(Diagnostic::error("unknown-word", node.span, message).hint(hint));
    }

    /// Reports an error of the core about a value.
    pub fn limit_error(&mut self, code: &'static str, node: &Node, error: &LimitError) {
        self.push(Diagnostic::error(code, node.span, error.problem()).hint(error.hint()));
    }
}
