//! Addresses as keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{IntoKey, KeyBuf};

/// The default prefix of an IPv6 client, in bits: providers give a customer at least a /64.
const V6_PREFIX_BITS_DEFAULT: u8 = 64;
const V6_BITS: u8 = 128;

/// An address as the key of a client. All IPv6 addresses with one prefix are one client, because a client owns its
/// whole prefix and could use a new address for every request. The prefix is a /64 unless
/// [`v6_prefix`](Self::v6_prefix) sets another.
///
/// IPv4 addresses are not grouped. An IPv4-mapped IPv6 address is the same key as the IPv4 address.
///
/// ```
/// use std::net::IpAddr;
/// use tidegate_core::{IntoKey, IpKey};
///
/// let address = |text: &str| text.parse::<IpAddr>();
/// let (one, other) = (address("2001:db8:0:1::a")?, address("2001:db8:0:2::b")?);
/// assert_ne!(IpKey::new(one), IpKey::new(other));
/// assert_eq!(IpKey::new(one).v6_prefix(48), IpKey::new(other).v6_prefix(48));
///
/// let mapped = IpKey::new(address("::ffff:192.0.2.1")?);
/// assert_eq!(mapped.key_bytes(), IpKey::new(address("192.0.2.1")?).key_bytes());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IpKey {
    address: IpAddr,
    v6_prefix_bits: u8,
}

impl IpKey {
    /// The key of an address. An IPv6 address is grouped by its /64.
    pub fn new(address: impl Into<IpAddr>) -> Self {
        Self { address: address.into().to_canonical(), v6_prefix_bits: V6_PREFIX_BITS_DEFAULT }
    }

    /// Groups IPv6 addresses by a prefix of this many bits instead. With 128 or more, each address is a key.
    #[must_use]
    pub fn v6_prefix(self, bits: u8) -> Self {
        Self { v6_prefix_bits: bits.min(V6_BITS), ..self }
    }
}

impl IntoKey for IpKey {
    type Bytes<'a> = KeyBuf;

    #[inline]
    fn key_bytes(&self) -> KeyBuf {
        match self.address {
            IpAddr::V6(address) if self.v6_prefix_bits < V6_BITS => {
                let host_bits = u32::from(V6_BITS - self.v6_prefix_bits);
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                let mut bytes = [self.v6_prefix_bits; 17];
                bytes[..16].copy_from_slice(&(u128::from(address) & mask).to_be_bytes());
                // The prefix length distinguishes a /48 from the first /64 in it.
                KeyBuf::from_slice(&bytes)
            }
            address => address.key_bytes(),
        }
    }
}

/// Two keys are equal if their bytes are.
impl PartialEq for IpKey {
    fn eq(&self, other: &Self) -> bool {
        self.key_bytes() == other.key_bytes()
    }
}

impl Eq for IpKey {}

impl std::hash::Hash for IpKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key_bytes().hash(state);
    }
}

impl IntoKey for Ipv4Addr {
    type Bytes<'a> = [u8; 4];

    #[inline]
    fn key_bytes(&self) -> [u8; 4] {
        self.octets()
    }
}

impl IntoKey for Ipv6Addr {
    type Bytes<'a> = KeyBuf;

    #[inline]
    fn key_bytes(&self) -> KeyBuf {
        match self.to_ipv4_mapped() {
            Some(address) => KeyBuf::from_slice(&address.octets()),
            None => KeyBuf::from_slice(&self.octets()),
        }
    }
}

impl IntoKey for IpAddr {
    type Bytes<'a> = KeyBuf;

    #[inline]
    fn key_bytes(&self) -> KeyBuf {
        match self {
            Self::V4(address) => KeyBuf::from_slice(&address.octets()),
            Self::V6(address) => address.key_bytes(),
        }
    }
}
