//! Slots: what a value can be asked for by.
//!
//! An attribute is a slot, whatever its values are and however often it stands in a descriptor. So is a name at a
//! place among a descriptor's entries, for rules with `entries`; it has one value at most, and that is compared as
//! it is.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::token::{Minter, Token, TokenMap};
use crate::rules::pattern::{path_without_query, start_of_block};
use crate::rules::{Attribute, Case, Net};

/// The name of a slot.
pub(super) type SlotId = u32;

/// How many different lengths of beginnings, or of ends, are looked up for one value. Patterns of other lengths are
/// looked up by a part of them.
pub(super) const LENGTHS_MAX: usize = 32;

/// All slots, and how they are found.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Method, path, host, ip: what most rules ask for is found without a hash.
    reserved: [Option<SlotId>; 4],
    headers: Names,
    plain: Names,
    places: Names,
    /// One more than the last place that any rule asks for.
    pub(super) places_end: usize,
    minter: Minter,
}

/// Slots by a token of their name.
#[derive(Debug)]
struct Names {
    slots: TokenMap<SlotId>,
    minter: Minter,
}

/// An attribute, or a name at a place.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) case: Case,
    is_path: bool,
    values: Minter,
    shapes: Minter,
    beginnings: Minter,
    ends: Minter,
    blocks: Minter,
    /// Stands for any value at all.
    pub(super) presence: Token,
    pub(super) uses: Uses,
}

/// What the rules ask of a slot; nothing else is computed for a value.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The token of the value itself, whatever for.
    pub(super) is_hashed: bool,
    /// Rules are found by value.
    pub(super) has_values: bool,
    /// Rules are found by the slot's being there.
    pub(super) has_presence: bool,
    /// Rules are found by a beginning of these lengths, in bytes and ascending.
    pub(super) beginnings: SmallVec<[usize; 4]>,
    /// Rules are found by an end of these lengths, in bytes and ascending.
    pub(super) ends: SmallVec<[usize; 4]>,
    /// Rules are found by the shape of a path, from this node of the tree on.
    pub(super) root: Option<u32>,
    /// Rules are found by blocks of these sizes, in bits.
    pub(super) ipv4_bits: SmallVec<[u8; 8]>,
    pub(super) ipv6_bits: SmallVec<[u8; 8]>,
}

impl Slots {
    pub(super) fn new(minter: &Minter) -> Self {
        let names = |sort| Names { slots: TokenMap::default(), minter: minter.for_sort(sort, 0) };
        Self {
            all: Vec::new(),
            reserved: [None; 4],
            headers: names("headers"),
            plain: names("plain names"),
            places: names("places"),
            places_end: 0,
            minter: minter.clone(),
        }
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

    /// The slot of an attribute. None for one that is not what [`Attribute::named`] makes of its name.
    pub(super) fn add(&mut self, attribute: &Attribute) -> Option<SlotId> {
        let next = SlotId::try_from(self.all.len()).ok()?;
        let id = match attribute {
            Attribute::Header(name) if !name.is_empty() => self.headers.add_ignoring_case(name, next),
            Attribute::Plain(name) if Attribute::named(name) == *attribute => {
                self.plain.add(name.as_bytes(), next)
            }
            Attribute::Header(_) | Attribute::Plain(_) => return None,
            reserved => *self.reserved[place_of(reserved)?].get_or_insert(next),
        };
        if id == next {
            let is_path = *attribute == Attribute::Path;
            self.all.push(Slot::new(&self.minter, id, attribute.case(), is_path));
        }
        Some(id)
    }

    /// The slot of a name at a place.
    pub(super) fn add_place(&mut self, place: usize, name: &str) -> Option<SlotId> {
        let next = SlotId::try_from(self.all.len()).ok()?;
        let token = self.places.place_token(place, name);
        let id = *self.places.slots.entry(token).or_insert(next);
        if id == next {
            self.all.push(Slot::new(&self.minter, id, Case::Kept, false));
            self.places_end = self.places_end.max(place + 1);
        }
        Some(id)
    }

    /// The slot of the attribute that an entry with this key is, if any rule asks for it.
    pub(super) fn find(&self, key: &str) -> Option<SlotId> {
        match key {
            "method" => self.reserved[0],
            "path" => self.reserved[1],
            "host" => self.reserved[2],
            "ip" => self.reserved[3],
            _ => match Attribute::header_name(key) {
                Some(header) => self.headers.find_ignoring_case(header),
                None => self.plain.find(key.as_bytes()),
            },
        }
    }

    /// The slot of this key at this place, if any rule asks for it.
    pub(super) fn find_place(&self, place: usize, key: &str) -> Option<SlotId> {
        self.places.slots.get(&self.places.place_token(place, key)).copied()
    }
}

impl Names {
    fn add(&mut self, name: &[u8], next: SlotId) -> SlotId {
        *self.slots.entry(self.minter.token(name)).or_insert(next)
    }

    fn add_ignoring_case(&mut self, name: &str, next: SlotId) -> SlotId {
        *self.slots.entry(self.minter.token_ignoring_case(name.as_bytes())).or_insert(next)
    }

    fn find(&self, name: &[u8]) -> Option<SlotId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.get(&self.minter.token(name)).copied()
    }

    fn find_ignoring_case(&self, name: &str) -> Option<SlotId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots.get(&self.minter.token_ignoring_case(name.as_bytes())).copied()
    }

    fn place_token(&self, place: usize, name: &str) -> Token {
        let mut running = self.minter.running();
        running.add(&place.to_le_bytes());
        running.add(name.as_bytes());
        running.token()
    }
}

impl Slot {
    fn new(minter: &Minter, id: SlotId, case: Case, is_path: bool) -> Self {
        Self {
            case,
            is_path,
            values: minter.for_sort("values", id),
            shapes: minter.for_sort("shapes", id),
            beginnings: minter.for_sort("beginnings", id),
            ends: minter.for_sort("ends", id),
            blocks: minter.for_sort("blocks", id),
            presence: minter.for_sort("presence", id).token(&[]),
            uses: Uses::default(),
        }
    }

    /// The part of a value that is compared.
    pub(super) fn compared<'a>(&self, value: &'a str) -> &'a str {
        if self.is_path { path_without_query(value) } else { value }
    }

    pub(super) fn value(&self, value: &str) -> Token {
        match self.case {
            Case::Kept => self.values.token(value.as_bytes()),
            Case::Ignored => self.values.token_ignoring_case(value.as_bytes()),
        }
    }

    /// Stands for all paths of a shape, which the tree tells by this text.
    pub(super) fn shape(&self, text: &str) -> Token {
        self.shapes.token(text.as_bytes())
    }

    pub(super) fn beginning(&self, bytes: &[u8]) -> Token {
        let mut token = Token::default();
        self.each_beginning(bytes, &[bytes.len()], |found| token = found);
        token
    }

    /// The tokens of a value's beginnings of these ascending lengths, in one pass over the value.
    pub(super) fn each_beginning(&self, value: &[u8], lengths: &[usize], mut then: impl FnMut(Token)) {
        let mut running = self.beginnings.running();
        let mut start = 0;
        for length in lengths {
            let Some(bytes) = value.get(start..*length) else { return };
            match self.case {
                Case::Kept => running.add(bytes),
                Case::Ignored => running.add_ignoring_case(bytes),
            }
            then(running.token());
            start = *length;
        }
    }

    pub(super) fn end(&self, bytes: &[u8]) -> Token {
        match self.case {
            Case::Kept => self.ends.token(bytes),
            Case::Ignored => self.ends.token_ignoring_case(bytes),
        }
    }

    pub(super) fn block(&self, net: &Net) -> Token {
        self.block_of(net.first(), net.prefix_bits())
    }

    /// The token of the block of this size that an address is in. Addresses of the two kinds have different lengths.
    pub(super) fn block_of(&self, address: IpAddr, prefix_bits: u8) -> Token {
        let mut bytes = [prefix_bits; 17];
        match start_of_block(address, prefix_bits) {
            IpAddr::V4(v4) => {
                bytes[1..5].copy_from_slice(&v4.octets());
                self.blocks.token(&bytes[..5])
            }
            IpAddr::V6(v6) => {
                bytes[1..].copy_from_slice(&v6.octets());
                self.blocks.token(&bytes)
            }
        }
    }
}

fn place_of(reserved: &Attribute) -> Option<usize> {
    match reserved {
        Attribute::Method => Some(0),
        Attribute::Path => Some(1),
        Attribute::Host => Some(2),
        Attribute::Ip => Some(3),
        Attribute::Header(_) | Attribute::Plain(_) => None,
    }
}
