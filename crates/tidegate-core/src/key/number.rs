//! Integers as keys. They are decimal digits, so that 42 is the same key as a `u32`, as a `usize` of any width, and as
//! text.

use std::fmt;

use super::IntoKey;
use crate::decimal::Decimal;

/// The decimal digits of an integer, as the bytes of a key.
#[derive(Clone, Copy)]
pub struct KeyDigits(Decimal);

impl AsRef<[u8]> for KeyDigits {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl PartialEq for KeyDigits {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for KeyDigits {}

impl fmt::Debug for KeyDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigits({})", self.as_ref().escape_ascii())
    }
}

macro_rules! unsigned {
    ($($type:ty as $wide:ty => $digits:ident),* $(,)?) => {$(
        impl IntoKey for $type {
            type Bytes<'a> = KeyDigits;

            #[inline]
            fn key_bytes(&self) -> KeyDigits {
                KeyDigits(Decimal::$digits(*self as $wide))
            }
        }
    )*};
}

macro_rules! signed {
    ($($type:ty as $wide:ty => $digits:ident),* $(,)?) => {$(
        impl IntoKey for $type {
            type Bytes<'a> = KeyDigits;

            #[inline]
            fn key_bytes(&self) -> KeyDigits {
                let digits = Decimal::$digits(self.unsigned_abs() as $wide);
                KeyDigits(if *self < 0 { digits.negative() } else { digits })
            }
        }
    )*};
}

// `usize` has at most 64 bits.
unsigned! {
    u8 as u64 => of,
    u16 as u64 => of,
    u32 as u64 => of,
    u64 as u64 => of,
    usize as u64 => of,
    u128 as u128 => of_u128,
}

signed! {
    i8 as u64 => of,
    i16 as u64 => of,
    i32 as u64 => of,
    i64 as u64 => of,
    isize as u64 => of,
    i128 as u128 => of_u128,
}
