//! Base64: the JSON gateway of etcd writes keys and values in it.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
    text
}

/// None if the text is not base64 with padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (chunks, []) = text.as_bytes().as_chunks::<4>() else { return None };
    for (index, chunk) in chunks.iter().enumerate() {
        let padding = chunk.iter().rev().take_while(|digit| **digit == b'=').count();
        if padding > 2 || padding > 0 && index + 1 < chunks.len() {
            return None;
        }
        let mut bits = 0_u32;
        for digit in &chunk[..4 - padding] {
            bits = bits << 6 | u32::try_from(DIGITS.iter().position(|known| known == digit)?).ok()?;
        }
        bits <<= 6 * padding;
        let [_, decoded @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&decoded[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648.
    #[test]
    fn text_is_encoded_and_decoded() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)).unwrap(), all);
        for wrong in ["Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9*"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
