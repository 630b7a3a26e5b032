//! Tuples as keys. Each part comes after its length, so that two parts cannot run into each other.

use smallvec::SmallVec;

use super::{IntoKey, KeyBuf};

impl KeyBuf {
    /// Adds a part: its length as LEB128 (seven bits to a byte, lowest first, the highest bit set on all but the last
    /// byte), then its bytes.
    #[inline]
    fn push_part(&mut self, part: &[u8]) {
        let mut length = part.len();
        while length >= 0x80 {
            self.0.push(low_bits(length) | 0x80);
            length >>= 7;
        }
        self.0.push(low_bits(length));
        self.0.extend_from_slice(part);
    }
}

fn low_bits(length: usize) -> u8 {
    length.to_le_bytes()[0] & 0x7f
}

macro_rules! tuple {
    ($($part:ident)*) => {
        impl<$($part: IntoKey),*> IntoKey for ($($part,)*) {
            type Bytes<'a>
                = KeyBuf
            where
                Self: 'a;

            #[inline]
            #[allow(non_snake_case, reason = "a part is named like its type")]
            fn key_bytes(&self) -> KeyBuf {
                let ($($part,)*) = self;
                let mut key = KeyBuf(SmallVec::new());
                $(key.push_part($part.key_bytes().as_ref());)*
                key
            }
        }
    };
}

tuple! { A B }
tuple! { A B C }
tuple! { A B C D }
tuple! { A B C D E }
tuple! { A B C D E F }
