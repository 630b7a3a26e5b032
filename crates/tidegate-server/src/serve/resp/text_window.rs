//! The start of the input as text, validated for many commands together.

/// Validate up to this many bytes together. Commands behind them may never run in this pass.
const WINDOW_BYTES: usize = 4 << 10;

/// The start of the input that is known to be UTF-8.
///
/// Validating 16 short commands together takes a fifth of the instructions of validating each. The window validates no
/// byte more than twice, whatever the client sends: a new one is opened only if a command ends behind the old one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextWindow<'a> {
    text: &'a str,
}

impl<'a> TextWindow<'a> {
    /// The start of `rest` as text, up to the end of its first command if all of that is UTF-8. `length` is the length of
    /// the command.
    #[inline]
    pub fn text_of(&mut self, rest: &'a [u8], length: usize) -> &'a str {
        if self.text.len() < length {
            self.text = valid_start(&rest[..rest.len().min(length.max(WINDOW_BYTES))]);
        }
        self.text
    }

    /// Moves behind the first command.
    #[inline]
    pub fn advance(&mut self, length: usize) {
        self.text = self.text.get(length..).unwrap_or_default();
    }
}

#[inline(never)]
fn valid_start(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_the_first_byte_that_is_not_utf8() {
        let input = b"first se\xffond third";
        let mut window = TextWindow::default();
        assert_eq!(window.text_of(input, 6), "first se");
        window.advance(6);
        assert_eq!(window.text_of(&input[6..], 7), "se");
        window.advance(7);
        assert_eq!(window.text_of(&input[13..], 5), "third");
    }

    #[test]
    fn characters_at_the_end_of_a_window_or_command_are_not_cut() {
        let long = "\u{e9}".repeat(WINDOW_BYTES);
        let mut window = TextWindow::default();
        assert_eq!(window.text_of(&long.as_bytes()[..WINDOW_BYTES + 1], 2).len(), WINDOW_BYTES);
        window.advance(3);
        assert_eq!(window.text_of(&long.as_bytes()[3..], 2), "");
        assert_eq!(TextWindow::default().text_of(long.as_bytes(), long.len()), long);
    }
}
