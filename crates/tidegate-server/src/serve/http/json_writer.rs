//! Writes JSON directly into a buffer.

pub(super) use tidegate_core::problem::push_json_text as write_text;

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
