//! The trait of keys, and its implementation for text, bytes and pointers.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

#[cfg(doc)]
use super::IpKey;

/// A key of at most this many bytes needs no allocation.
const INLINE_BYTES: usize = 48;

/// A value that can be a key: text, bytes, integers, addresses, and tuples of them.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_core::{IntoKey, IpKey};
///
/// // Text and bytes are themselves. An integer is its decimal digits, whatever its type.
/// assert_eq!("user:42".key_bytes(), b"user:42");
/// assert_eq!(42_u32.key_bytes().as_ref(), b"42");
/// assert_eq!(42_usize.key_bytes(), 42_i64.key_bytes());
///
/// // The parts of a tuple do not run into each other.
/// assert_ne!(("ab", "c").key_bytes(), ("a", "bc").key_bytes());
///
/// // All addresses of a /64 are one client.
/// let (one, other): (IpAddr, IpAddr) = ("2001:db8::1".parse()?, "2001:db8::2".parse()?);
/// assert_eq!((42, IpKey::new(one)).key_bytes(), (42, IpKey::new(other)).key_bytes());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
///
/// | value | bytes |
/// |---|---|
/// | text, bytes | themselves |
/// | integers | their decimal digits, with `-` in front of a negative one |
/// | `Ipv4Addr` | its 4 octets |
/// | `Ipv6Addr` | its 16 octets; the 4 of IPv4 if it is an IPv4-mapped address |
/// | `IpAddr` | like the address that it holds |
/// | [`IpKey`] | IPv4: 4 octets. IPv6: 16 octets, zero after the prefix, and the prefix length as one byte |
/// | tuples | for each part, the length of its bytes as LEB128, then its bytes |
///
/// The bytes do not encode the type: `42` and `"42"` are the same key, and so are `("a", "b")` and its encoded bytes.
/// Use keys of one type for each limiter.
///
/// The encoding never changes, because counters in Redis and in snapshots are found by it.
///
/// Implement it for your own type in terms of these types:
///
/// ```
/// use tidegate_core::{IntoKey, KeyBuf};
///
/// struct Tenant { id: u64, region: String }
///
/// impl IntoKey for Tenant {
///     type Bytes<'a> = KeyBuf;
///     fn key_bytes(&self) -> KeyBuf {
///         (&self.region, self.id).key_bytes()
///     }
/// }
/// ```
pub trait IntoKey {
    /// The bytes, borrowed if the value already holds them.
    type Bytes<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// The bytes of the key.
    fn key_bytes(&self) -> Self::Bytes<'_>;
}

/// The bytes of a key that is built from parts. Up to 48 bytes need no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyBuf(pub(super) SmallVec<[u8; INLINE_BYTES]>);

impl KeyBuf {
    /// The key with these bytes.
    #[inline]
    pub fn from_slice(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }
}

impl AsRef<[u8]> for KeyBuf {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBuf({})", self.0.escape_ascii())
    }
}

/// Types that already hold the bytes of their key.
macro_rules! key_is_own_bytes {
    ($($type:ty => $as_bytes:ident),* $(,)?) => {$(
        impl IntoKey for $type {
            type Bytes<'a> = &'a [u8];

            #[inline]
            fn key_bytes(&self) -> &[u8] {
                self.$as_bytes()
            }
        }
    )*};
}

key_is_own_bytes! {
    str => as_bytes,
    String => as_bytes,
    Vec<u8> => as_slice,
    KeyBuf => as_ref,
}

impl IntoKey for [u8] {
    type Bytes<'a> = &'a [u8];

    #[inline]
    fn key_bytes(&self) -> &[u8] {
        self
    }
}

impl<const N: usize> IntoKey for [u8; N] {
    type Bytes<'a> = &'a [u8];

    #[inline]
    fn key_bytes(&self) -> &[u8] {
        self
    }
}

/// A pointer has the key of its target.
macro_rules! delegate_to_target {
    ($($type:ty),* $(,)?) => {$(
        impl<T: IntoKey + ?Sized> IntoKey for $type {
            type Bytes<'a>
                = T::Bytes<'a>
            where
                Self: 'a;

            #[inline]
            fn key_bytes(&self) -> T::Bytes<'_> {
                (**self).key_bytes()
            }
        }
    )*};
}

delegate_to_target! { &T, &mut T, Box<T>, Rc<T>, Arc<T> }

impl<T: IntoKey + ToOwned + ?Sized> IntoKey for Cow<'_, T> {
    type Bytes<'a>
        = T::Bytes<'a>
    where
        Self: 'a;

    #[inline]
    fn key_bytes(&self) -> T::Bytes<'_> {
        (**self).key_bytes()
    }
}
