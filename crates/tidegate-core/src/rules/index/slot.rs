//! Slots: what rules put conditions on.
//!
//! Each attribute is a slot, whatever its values and however often it occurs in a descriptor. For rules with `entries`,
//! each name at a position among the entries is a slot too. Such a slot has at most one value, which is compared
//! unchanged.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::token::{Token, TokenHasher, TokenMap};
use crate::rules::pattern::network_address;
use crate::rules::{AddressAttribute, Attribute, CaseSensitivity, Net};

/// The index of a slot.
pub(super) type SlotId = u32;

/// The most different lengths of prefixes, or of suffixes, that are looked up for one value. Longer patterns are looked
/// up by a part of their text.
pub(super) const LENGTHS_MAX: usize = 32;

/// Method, path, host, `ip` and Envoy's two names of addresses.
const RESERVED_COUNT: usize = 6;

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Method, path, host, and addresses. Most rules use these, so they are found without a hash.
    reserved: [Option<SlotId>; RESERVED_COUNT],
    headers: SlotNames,
    plain: SlotNames,
    positions: SlotNames,
    /// One more than the last position that a rule uses.
    pub(super) positions_end: usize,
    hasher: TokenHasher,
}

/// Slots by the token of their name.
#[derive(Debug)]
struct SlotNames {
    slots: TokenMap<SlotId>,
    hasher: TokenHasher,
}

/// An attribute, or a name at a position.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) case: CaseSensitivity,
    /// Whose values are compared. `None` for a name at a position.
    attribute: Option<Attribute>,
    values: TokenHasher,
    paths: TokenHasher,
    prefixes: TokenHasher,
    suffixes: TokenHasher,
    nets: TokenHasher,
    /// Stands for any value.
    pub(super) presence: Token,
    pub(super) lookups: SlotLookups,
}

/// Which lookups the rules need for a slot. Nothing else is computed for a value.
#[derive(Debug, Default)]
pub(super) struct SlotLookups {
    /// The token of the value is needed.
    pub(super) is_hashed: bool,
    /// Rules are found by value.
    pub(super) has_values: bool,
    /// Rules are found by presence.
    pub(super) has_presence: bool,
    /// Rules are found by prefixes of these lengths, in bytes and ascending.
    pub(super) prefix_lengths: SmallVec<[usize; 4]>,
    /// Rules are found by suffixes of these lengths, in bytes and ascending.
    pub(super) suffix_lengths: SmallVec<[usize; 4]>,
    /// Rules are found by path pattern, from this node of the trie on.
    pub(super) path_root: Option<u32>,
    /// Rules are found by address blocks of these sizes, in bits.
    pub(super) ipv4_bits: SmallVec<[u8; 8]>,
    pub(super) ipv6_bits: SmallVec<[u8; 8]>,
}

impl Slots {
    pub(super) fn new(hasher: &TokenHasher) -> Self {
        let names = |kind| SlotNames { slots: TokenMap::default(), hasher: hasher.for_kind(kind, 0) };
        Self {
            all: Vec::new(),
            reserved: [None; RESERVED_COUNT],
            headers: names("headers"),
            plain: names("plain names"),
            positions: names("positions"),
            positions_end: 0,
            hasher: hasher.clone(),
        }
    }

    /// Whether no rule has a condition.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, id: SlotId) -> &Slot {
        &self.all[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.all[id as usize]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SlotId> + use<> {
        0..SlotId::try_from(self.all.len()).unwrap_or(SlotId::MAX)
    }

    /// The slot of an attribute. `None` for an attribute that [`Attribute::from_name`] would not make from its name.
    pub(super) fn add(&mut self, attribute: &Attribute) -> Option<SlotId> {
        let next = SlotId::try_from(self.all.len()).ok()?;
        let id = match attribute {
            Attribute::Header(name) if !name.is_empty() => self.headers.add_ignoring_case(name, next),
            Attribute::Plain(name) if Attribute::from_name(name) == *attribute => {
                self.plain.add(name.as_bytes(), next)
            }
            Attribute::Header(_) | Attribute::Plain(_) => return None,
            reserved => *self.reserved[reserved_index(reserved)?].get_or_insert(next),
        };
        if id == next {
            self.all.push(Slot::new(&self.hasher, id, Some(attribute.clone())));
        }
        Some(id)
    }

    /// The slot of a name at a position.
    pub(super) fn add_position(&mut self, position: usize, name: &str) -> Option<SlotId> {
        let next = SlotId::try_from(self.all.len()).ok()?;
        let token = self.positions.position_token(position, name);
        let id = *self.positions.slots.entry(token).or_insert(next);
        if id == next {
            self.all.push(Slot::new(&self.hasher, id, None));
            self.positions_end = self.positions_end.max(position + 1);
        }
        Some(id)
    }

    /// The slot of the attribute with this entry key, if a rule uses it.
    pub(super) fn find(&self, key: &str) -> Option<SlotId> {
        match key {
            "method" => self.reserved[0],
            "path" => self.reserved[1],
            "host" => self.reserved[2],
            "ip" => self.reserved[3],
            "remote_address" => self.reserved[4],
            "masked_remote_address" => self.reserved[5],
            _ => match Attribute::header_name(key) {
                Some(header) => self.headers.find_ignoring_case(header),
                None => self.plain.find(key.as_bytes()),
            },
        }
    }

    /// The slot of this key at this position, if a rule uses it.
    pub(super) fn find_position(&self, position: usize, key: &str) -> Option<SlotId> {
        self.positions.slots.get(&self.positions.position_token(position, key)).copied()
    }
}

impl SlotNames {
    fn add(&mut self, name: &[u8], next: SlotId) -> SlotId {
        *self.slots.entry(self.hasher.token(name)).or_insert(next)
    }

    fn add_ignoring_case(&mut self, name: &str, next: SlotId) -> SlotId {
        *self.slots.entry(self.hasher.token_ignoring_case(name.as_bytes())).or_insert(next)
    }

    fn find(&self, name: &[u8]) -> Option<SlotId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.get(&self.hasher.token(name)).copied()
    }

    fn find_ignoring_case(&self, name: &str) -> Option<SlotId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.get(&self.hasher.token_ignoring_case(name.as_bytes())).copied()
    }

    fn position_token(&self, position: usize, name: &str) -> Token {
        let mut builder = self.hasher.start();
        builder.add(&position.to_le_bytes());
        builder.add(name.as_bytes());
        builder.finish()
    }
}

impl Slot {
    fn new(hasher: &TokenHasher, id: SlotId, attribute: Option<Attribute>) -> Self {
        Self {
            case: attribute.as_ref().map_or(CaseSensitivity::Sensitive, Attribute::case),
            attribute,
            values: hasher.for_kind("values", id),
            paths: hasher.for_kind("paths", id),
            prefixes: hasher.for_kind("prefixes", id),
            suffixes: hasher.for_kind("suffixes", id),
            nets: hasher.for_kind("nets", id),
            presence: hasher.for_kind("presence", id).token(&[]),
            lookups: SlotLookups::default(),
        }
    }

    /// The part of a value that is compared.
    pub(super) fn comparable_part<'a>(&self, value: &'a str) -> &'a str {
        self.attribute.as_ref().map_or(value, |attribute| attribute.comparable_part(value))
    }

    pub(super) fn value(&self, value: &str) -> Token {
        match self.case {
            CaseSensitivity::Sensitive => self.values.token(value.as_bytes()),
            CaseSensitivity::Insensitive => self.values.token_ignoring_case(value.as_bytes()),
        }
    }

    /// The token of a path pattern.
    pub(super) fn path(&self, text: &str) -> Token {
        self.paths.token(text.as_bytes())
    }

    pub(super) fn prefix(&self, bytes: &[u8]) -> Token {
        let mut token = Token::default();
        self.each_prefix(bytes, &[bytes.len()], |prefix| token = prefix);
        token
    }

    /// The tokens of a value's prefixes with these ascending lengths, in one pass over the value.
    pub(super) fn each_prefix(&self, value: &[u8], lengths: &[usize], mut then: impl FnMut(Token)) {
        let mut builder = self.prefixes.start();
        let mut start = 0;
        for length in lengths {
            let Some(bytes) = value.get(start..*length) else { return };
            match self.case {
                CaseSensitivity::Sensitive => builder.add(bytes),
                CaseSensitivity::Insensitive => builder.add_ignoring_case(bytes),
            }
            then(builder.finish());
            start = *length;
        }
    }

    pub(super) fn suffix(&self, bytes: &[u8]) -> Token {
        match self.case {
            CaseSensitivity::Sensitive => self.suffixes.token(bytes),
            CaseSensitivity::Insensitive => self.suffixes.token_ignoring_case(bytes),
        }
    }

    pub(super) fn net(&self, net: &Net) -> Token {
        self.network(net.first(), net.prefix_bits())
    }

    /// The token of the block of this size that contains an address. IPv4 and IPv6 cannot collide, because their
    /// lengths differ.
    pub(super) fn network(&self, address: IpAddr, prefix_bits: u8) -> Token {
        let mut bytes = [prefix_bits; 17];
        match network_address(address, prefix_bits) {
            IpAddr::V4(v4) => {
                bytes[1..5].copy_from_slice(&v4.octets());
                self.nets.token(&bytes[..5])
            }
            IpAddr::V6(v6) => {
                bytes[1..].copy_from_slice(&v6.octets());
                self.nets.token(&bytes)
            }
        }
    }
}

fn reserved_index(reserved: &Attribute) -> Option<usize> {
    match reserved {
        Attribute::Method => Some(0),
        Attribute::Path => Some(1),
        Attribute::Host => Some(2),
        Attribute::Address(AddressAttribute::Ip) => Some(3),
        Attribute::Address(AddressAttribute::RemoteAddress) => Some(4),
        Attribute::Address(AddressAttribute::MaskedRemoteAddress) => Some(5),
        Attribute::Header(_) | Attribute::Plain(_) => None,
    }
}
