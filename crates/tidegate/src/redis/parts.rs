//! Which parts a plan has to be split into: a call of the script needs all its keys in one slot of one server.

use smallvec::{SmallVec, smallvec};

use super::key_name::hash_tag;
use super::order::{Order, OrderCharge};
use super::servers::Place;

/// How the keys of a plan lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parted {
    /// All in one place.
    Whole(Place),
    /// Not all in one place.
    Split(Vec<Part>),
}

/// The charges of a plan whose keys are in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub place: Place,
    /// Where in the plan they are.
    pub charges: SmallVec<[usize; 4]>,
}

impl Parted {
    /// How the keys of charges lie; none if there are no charges. A place is asked for by the hash tag of a key.
    pub(super) fn of(charges: &[OrderCharge], place_of: impl Fn(&[u8]) -> Place) -> Option<Self> {
        let mut parts: SmallVec<[Part; 1]> = SmallVec::new();
        for (at, charge) in charges.iter().enumerate() {
            let place = place_of(hash_tag(&charge.key));
            match parts.iter_mut().find(|part| part.place == place) {
                Some(part) => part.charges.push(at),
                None => parts.push(Part { place, charges: smallvec![at] }),
            }
        }
        match &parts[..] {
            [] => None,
            [part] => Some(Self::Whole(part.place)),
            _ => Some(Self::Split(parts.into_vec())),
        }
    }
}

impl Part {
    /// The charges of this part.
    pub(super) fn charges_of<'a>(&'a self, order: &'a Order) -> impl Iterator<Item = &'a OrderCharge> {
        self.charges.iter().filter_map(|at| order.charges.get(*at))
    }
}

/// What of a key's name says which counter it is of: what comes after its hash tag.
pub(super) fn after_hash_tag(key: &[u8]) -> &[u8] {
    key.iter().position(|byte| *byte == b'}').map_or(&[], |close| &key[close + 1..])
}
