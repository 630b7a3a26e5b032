//! Writes JSON directly into a buffer.

/// Writes `"text"`, escaped where necessary.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Nearly every text needs no escapes. The loop does not stop early, so that it handles many bytes at once.
    if rest.iter().fold(false, |needs, byte| needs | needs_escape(*byte)) {
        rest = write_escaped(out, rest);
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn needs_escape(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Writes everything up to the last byte that needs an escape, and returns the rest.
#[cold]
fn write_escaped<'t>(out: &mut Vec<u8>, text: &'t [u8]) -> &'t [u8] {
    let mut rest = text;
    // Parts without escapes are copied whole. Bytes that need an escape are ASCII, so the parts stay UTF-8.
    while let Some(index) = rest.iter().position(|byte| needs_escape(*byte)) {
        out.extend_from_slice(&rest[..index]);
        match rest[index] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
        rest = &rest[index + 1..];
    }
    rest
}

#[inline]
pub(super) fn write_number(out: &mut Vec<u8>, number: u64) {
    // Most numbers are small: positions, and times that are zero.
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        _ => write_long_number(out, number),
    }
}

#[inline(never)]
fn write_long_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes `[..., ...]`.
pub(super) fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_comes_back() {
        let every: String = ('\0'..='\u{2ff}').chain(['\u{2028}', '😀', '\u{10ffff}']).collect();
        for item in [every.as_str(), "", "plain", "\"", "\\", "ends in \n"] {
            let mut out = Vec::new();
            write_text(&mut out, item);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), item, "{out:?}");
        }
    }

    #[test]
    fn lists() {
        let written = |numbers: &[u64]| {
            let mut out = Vec::new();
            write_list(&mut out, numbers, |out, item| write_number(out, *item));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&[]), "[]");
        assert_eq!(written(&[0, 9, 10, u64::MAX]), "[0,9,10,18446744073709551615]");
    }
}
