//! Blocks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::PatternError;
use super::error::quoted;
use super::value_pattern::check_length;

/// The bits before the IPv4 address in an IPv4-mapped IPv6 address, `::ffff:10.0.0.1`.
const MAPPED_BITS: u8 = 96;

/// A block of addresses. IPv4-mapped IPv6 counts as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    /// Its first address.
    first: IpAddr,
    prefix_bits: u8,
}

impl Net {
    /// Reads a block, `10.0.0.0/8`, or an address, `2001:db8::1`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check_length(text)?;
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| {
            PatternError::new(
                format!("{} is not an address", quoted(text)),
                "write an address, `10.0.0.1` or `2001:db8::1`, or a block, `10.0.0.0/8` or `2001:db8::/32`",
            )
        })?;
        let bits = bits.map(|bits| prefix_bits(text, address, bits)).transpose()?;
        let bits = bits.unwrap_or(bits_max(address));
        let block = match address.to_canonical() {
            canonical @ IpAddr::V4(_) if address.is_ipv6() && bits >= MAPPED_BITS => {
                Self { first: canonical, prefix_bits: bits - MAPPED_BITS }
            }
            _ => Self { first: address, prefix_bits: bits },
        };
        let enclosing = Self { first: block.network_of(block.first), ..block };
        if enclosing != block {
            return Err(PatternError::new(
                format!("{} is within a block, not the beginning of one", quoted(text)),
                format!("the block is `{enclosing}`, the address alone is `{}`", block.first),
            ));
        }
        Ok(block)
    }

    /// Its first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The number of bits that all its addresses share.
    pub fn prefix_bits(&self) -> u8 {
        self.prefix_bits
    }

    /// Whether the block contains an address. IPv4-mapped IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && self.network_of(address) == self.first
    }

    /// The first address of the block of this size that contains an address of the same family.
    fn network_of(&self, address: IpAddr) -> IpAddr {
        network_address(address, self.prefix_bits)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_bits == bits_max(self.first) {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

/// The address with all bits after the prefix set to zero.
pub(crate) fn network_address(address: IpAddr, prefix_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let rest_bits = u32::from(bits_max(address).saturating_sub(prefix_bits));
            let mask = u32::MAX.checked_shl(rest_bits).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & mask).into()
        }
        IpAddr::V6(v6) => {
            let rest_bits = u32::from(bits_max(address).saturating_sub(prefix_bits));
            let mask = u128::MAX.checked_shl(rest_bits).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & mask).into()
        }
    }
}

fn bits_max(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn prefix_bits(whole: &str, address: IpAddr, text: &str) -> Result<u8, PatternError> {
    let max = bits_max(address);
    let bits = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u8>().ok()).flatten();
    bits.filter(|bits| *bits <= max).ok_or_else(|| {
        PatternError::new(
            format!("{} is not a number of prefix bits in {}", quoted(text), quoted(whole)),
            format!("an address of this kind has 0 to {max}"),
        )
    })
}
