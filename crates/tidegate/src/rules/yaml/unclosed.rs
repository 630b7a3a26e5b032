//! Finds a bracket that is never closed.
//!
//! A YAML parser notices a missing bracket only when the text after it makes no sense, often many lines later.
//! People have to look at the line where the bracket opens.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::rules::{FileId, Span};

/// A bracket that is never closed.
#[derive(Clone, Copy)]
pub(super) struct UnclosedBracket {
    pub span: Span,
    pub open: char,
    pub close: char,
}

/// The last bracket on a line before `noticed` that opens a flow collection and is never closed. None if all are
/// closed, or if the text has block scalars, which would need a whole parser.
pub(super) fn find_unclosed_bracket(text: &str, file: FileId, noticed: Span) -> Option<UnclosedBracket> {
    let (at, open) = unclosed_bracket(text, noticed.start as usize)?;
    let before = &text[..at];
    let to_u32 = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let line = to_u32(before.matches('\n').count() + 1);
    let column = to_u32(before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    let span = Span { file, start: to_u32(at), end: to_u32(at + 1), line, column };
    let close = if open == '{' { '}' } else { ']' };
    (line < noticed.line).then_some(UnclosedBracket { span, open, close })
}

/// The offset of the last bracket before `before` that is never closed.
fn unclosed_bracket(text: &str, before: usize) -> Option<(usize, char)> {
    let mut scanner = Scanner { chars: text.char_indices().peekable(), open: Vec::new(), starts_token: true };
    scanner.scan()?;
    scanner.open.into_iter().rfind(|(at, _)| *at < before)
}

struct Scanner<'t> {
    chars: Peekable<CharIndices<'t>>,
    /// The brackets that are open, with their offsets.
    open: Vec<(usize, char)>,
    /// Whether a value, a name or an indicator may start here, as opposed to the middle of a plain scalar.
    starts_token: bool,
}

impl Scanner<'_> {
    fn scan(&mut self) -> Option<()> {
        let mut after_space = true;
        while let Some((at, c)) = self.chars.next() {
            let is_flow = !self.open.is_empty();
            match c {
                '#' if after_space => self.skip_until(|c| c == '\n'),
                '\n' => self.starts_token = true,
                c if c.is_whitespace() => {}
                '{' | '[' if is_flow || self.starts_token => {
                    self.open.push((at, c));
                    self.starts_token = true;
                }
                '}' | ']' if is_flow => {
                    self.open.pop();
                    self.starts_token = false;
                }
                ',' if is_flow => self.starts_token = true,
                '"' | '\'' if self.starts_token => self.skip_quoted(c),
                '|' | '>' if self.starts_token && !is_flow => return None,
                // A property comes before its value.
                '&' | '!' if self.starts_token => self.skip_until(char::is_whitespace),
                '-' | '?' if self.starts_token && self.is_space_next() => {}
                ':' if is_flow || self.is_space_next() => self.starts_token = true,
                _ => self.starts_token = false,
            }
            after_space = c.is_whitespace();
        }
        Some(())
    }

    fn is_space_next(&mut self) -> bool {
        self.chars.peek().is_none_or(|(_, c)| c.is_whitespace())
    }

    fn skip_until(&mut self, is_end: impl Fn(char) -> bool) {
        while self.chars.next_if(|(_, c)| !is_end(*c)).is_some() {}
    }

    /// Skips to the closing quote. A quote in single quotes is doubled, which reads as two scalars.
    fn skip_quoted(&mut self, quote: char) {
        while let Some((_, c)) = self.chars.next() {
            match c {
                '\\' if quote == '"' => drop(self.chars.next()),
                c if c == quote => break,
                _ => {}
            }
        }
        // The second quote of a doubled one follows at once.
        self.starts_token = self.chars.peek().is_some_and(|(_, c)| *c == quote);
    }
}

#[cfg(test)]
mod tests {
    use super::unclosed_bracket;

    fn unclosed(text: &str) -> Option<(usize, char)> {
        unclosed_bracket(text, text.len())
    }

    #[test]
    fn unclosed_brackets() {
        assert_eq!(unclosed("a: { b: c\nd: e\n"), Some((3, '{')));
        assert_eq!(unclosed("- { a: b\n- { a: b }\n"), Some((2, '{')));
        assert_eq!(unclosed("a: { b: \"}\", c: '}''}' # }\n"), Some((3, '{')));
        assert_eq!(unclosed("a: [ b, { c: d }\nb: { c: d }\n"), Some((3, '[')));
        assert_eq!(unclosed("a: &x {\n"), Some((6, '{')));
    }

    #[test]
    fn closed_or_no_brackets() {
        for text in [
            "a: { b: c }\n",
            "path: /users/{id\n",
            "path: a [b # {\n",
            "name: it's {\n",
            "- \"{\"\n- '{'\n",
            "a: |\n  {\n",
            "a: [\n  b,\n  c,\n]\n",
        ] {
            assert_eq!(unclosed(text), None, "{text}");
        }
        assert_eq!(unclosed_bracket("a: b\nc: {", 3), None);
    }
}
