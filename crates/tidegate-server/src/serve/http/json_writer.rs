//! Writes JSON directly into a buffer.

/// Writes `"text"`, escaped where necessary.
pub(super) fn write_text(out: &mut String, text: &str) {
    out.push('"');
    // Nearly every text needs no escapes. The loop does not stop early, so that it handles many bytes at once.
    let needs_escapes = text.bytes().fold(false, |needs, byte| needs | needs_escape(byte));
    let rest = if needs_escapes { write_escaped(out, text) } else { text };
    out.push_str(rest);
    out.push('"');
}

fn needs_escape(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Writes everything up to the last byte that needs an escape, and returns the rest.
#[cold]
fn write_escaped<'t>(out: &mut String, text: &'t str) -> &'t str {
    let mut rest = text;
    // Parts without escapes are copied whole. Bytes that need an escape are ASCII, so the parts stay UTF-8.
    while let Some(index) = rest.bytes().position(needs_escape) {
        out.push_str(&rest[..index]);
        match rest.as_bytes()[index] {
            byte @ (b'"' | b'\\') => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            byte => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
                out.extend(['\\', 'u', '0', '0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        rest = &rest[index + 1..];
    }
    rest
}

#[inline]
pub(super) fn write_number(out: &mut String, number: u64) {
    // Most numbers are small: positions, and times that are zero.
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => out.push(char::from(b'0' + digit)),
        _ => write_long_number(out, number),
    }
}

#[inline(never)]
fn write_long_number(out: &mut String, number: u64) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Writes `[..., ...]`.
pub(super) fn write_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_comes_back() {
        let every: String = ('\0'..='\u{2ff}').chain(['\u{2028}', '😀', '\u{10ffff}']).collect();
        for item in [every.as_str(), "", "plain", "\"", "\\", "ends in \n"] {
            let mut out = String::new();
            write_text(&mut out, item);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), item, "{out:?}");
        }
    }

    #[test]
    fn lists() {
        let written = |numbers: &[u64]| {
            let mut out = String::new();
            write_list(&mut out, numbers, |out, item| write_number(out, *item));
            out
        };
        assert_eq!(written(&[]), "[]");
        assert_eq!(written(&[0, 9, 10, u64::MAX]), "[0,9,10,18446744073709551615]");
    }
}
