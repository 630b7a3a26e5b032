//! The address of the client behind proxies.
//!
//! Each proxy appends the address of its peer to a header, so the entries of trusted proxies are the last ones. Entries
//! before them come from the client, which can write anything. So entries are counted from the right, and the leftmost
//! entry is never taken just because it is the first.

use std::net::IpAddr;

use tidegate_core::rules::NetSet;

use super::forwarded;

/// The most trusted hops. More proxies in a row are a mistake.
pub const HOPS_MAX: u8 = 32;

/// The header in which proxies pass addresses on. Only one is read: a client could write the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, a list of addresses.
    #[default]
    XForwardedFor,
    /// `Forwarded` of RFC 7239.
    Forwarded,
}

/// Where the address of a client comes from.
///
/// ```
/// use tidegate::identity::{ClientAddress, ForwardedHeader};
///
/// let peer = Some("10.0.0.1".parse()?);
/// let from_client_and_proxy: [&[u8]; 2] = [b"1.1.1.1", b"198.51.100.7"];
/// let found = |settings: ClientAddress| settings.find(peer, from_client_and_proxy);
///
/// assert_eq!(found(ClientAddress::peer()), peer);
/// let behind_one_proxy = ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 1);
/// assert_eq!(found(behind_one_proxy), Some("198.51.100.7".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientAddress {
    header: ForwardedHeader,
    trusted: Trusted,
}

/// Which proxies are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trusted {
    /// This many, counted from Tidegate outwards. The peer is the first.
    Hops(u8),
    /// Those in these networks. A peer over a Unix socket has no address and is trusted: the permissions of the socket
    /// say which programs may connect.
    Networks(NetSet),
}

impl ClientAddress {
    /// The address of the peer. No header is read.
    pub fn peer() -> Self {
        Self::default()
    }

    /// Trusts this many proxies, at most [`HOPS_MAX`]. With 0 it is the address of the peer, with 1 the last entry of the
    /// header, with 2 the one before it. With fewer entries, or if the entry is no address, it is the address of the
    /// peer.
    pub fn trusted_hops(header: ForwardedHeader, hops: u8) -> Self {
        Self { header, trusted: Trusted::Hops(hops.min(HOPS_MAX)) }
    }

    /// Trusts all proxies in these networks. The client is the first address outside them, beginning with the peer and
    /// then from the last entry backwards. An entry that is no address ends the search: the client is then the last
    /// trusted address. If all are trusted, it is the one farthest away.
    pub fn trusted_networks(header: ForwardedHeader, networks: NetSet) -> Self {
        Self { header, trusted: Trusted::Networks(networks) }
    }

    /// The name of the header that is read, in lower case. `None` if only the peer counts.
    #[inline]
    pub fn header_name(&self) -> Option<&'static str> {
        (!matches!(self.trusted, Trusted::Hops(0))).then_some(self.header.name())
    }

    /// The address of a client that is the peer.
    #[inline]
    pub(super) fn of_peer(peer: Option<IpAddr>) -> Option<IpAddr> {
        peer.map(|address| address.to_canonical())
    }

    /// The address of the client. IPv4-mapped IPv6 becomes IPv4.
    ///
    /// `peer` is the address of the connection; a Unix socket has none. `values` are those of the header
    /// [`header_name`](Self::header_name), one for each header line, in order.
    pub fn find<'v, V>(&self, peer: Option<IpAddr>, values: V) -> Option<IpAddr>
    where
        V: IntoIterator<Item = &'v [u8]>,
        V::IntoIter: DoubleEndedIterator,
    {
        let peer = Self::of_peer(peer);
        let mut addresses = forwarded::addresses_from_last(self.header, values.into_iter());
        match &self.trusted {
            Trusted::Hops(0) => peer,
            Trusted::Hops(hops) => addresses.nth(usize::from(*hops) - 1).flatten().or(peer),
            Trusted::Networks(networks) => {
                let mut client = peer;
                while client.is_none_or(|address| networks.contains(address)) {
                    let Some(Some(next)) = addresses.next() else { break };
                    client = Some(next);
                }
                client
            }
        }
    }
}

impl ForwardedHeader {
    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

/// The peer alone.
impl Default for Trusted {
    fn default() -> Self {
        Self::Hops(0)
    }
}
