//! Keys: what a counter is kept for, as bytes.
//!
//! A key is bytes, and its bytes are what a counter is found by: in memory, in snapshots and in Redis. So they are the same
//! in every version, on every machine, and whatever the width of an integer is there. The standard library's `Hash`
//! promises none of that, and is not used. [`IntoKey`] has the table.

mod ip;
mod number;
mod tuple;

pub use ip::IpKey;
pub use number::KeyDigits;

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;

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
/// | `IpAddr` | those of the address |
/// | [`IpKey`] | IPv4: 4 octets. IPv6: 16 octets with zeros after the prefix, and the length of the prefix as one byte |
/// | tuples | for each part, the length of its bytes as LEB128, then its bytes |
///
/// The bytes do not say what type they are of: `42` and `"42"` are the same key, and so are `("a", "b")` and the bytes
/// that it is written as. Keys of one limiter should all be of one kind.
///
/// The encoding does not change: counters in Redis and in snapshots are found by it.
///
/// A type of your own becomes a key in terms of these:
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
    /// The bytes: borrowed where the value holds them already.
    type Bytes<'a>: AsRef<[u8]>
    where
        Self: 'a;

    /// The bytes of the key.
    fn key_bytes(&self) -> Self::Bytes<'_>;
}

/// The bytes of a key that is put together of parts. At most 48 of them need no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyBuf(SmallVec<[u8; INLINE_BYTES]>);

impl KeyBuf {
    #[inline]
    fn from_slice(bytes: &[u8]) -> Self {
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

/// What holds the bytes of its key already.
macro_rules! bytes_themselves {
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

bytes_themselves! {
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

/// What points to a key.
macro_rules! as_what_it_points_to {
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

as_what_it_points_to! { &T, &mut T, Box<T>, Rc<T>, Arc<T> }

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
