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

#[cfg(test)]
mod tests {
    use tidegate_core::{Counter, Role};

    use super::*;
    use crate::IntoLimit;
    use crate::redis::order::KeyName;
    use crate::redis::servers::ServerId;

    fn charge(key: &str) -> OrderCharge {
        let counter = Counter::new("rule", 0, "1/s".into_limit().unwrap());
        OrderCharge {
            key: KeyName::from_slice(key.as_bytes()),
            algorithm: counter.algorithm().clone(),
            cost: 1,
            role: Role::Enforced,
            counts_from: None,
            deny_cache: tidegate_core::DenyCache::On,
        }
    }

    /// The slot is the tag's only digit.
    fn place(tag: &[u8]) -> Place {
        Place { server: ServerId::FIRST, slot: u16::from(tag[0] - b'0') }
    }

    #[test]
    fn keys_with_one_tag_are_one_part_wherever_they_stand_in_the_plan() {
        let keys = ["tg:1{3}a", "tg:1{5}a", "tg:1{3}b", "tg:1{7}a", "tg:1{5}b"];
        let charges: Vec<OrderCharge> = keys.iter().map(|key| charge(key)).collect();
        let Some(Parted::Split(parts)) = Parted::of(&charges, place) else { panic!("they are apart") };
        let found: Vec<(u16, Vec<usize>)> =
            parts.iter().map(|part| (part.place.slot, part.charges.to_vec())).collect();
        assert_eq!(found, [(3, vec![0, 2]), (5, vec![1, 4]), (7, vec![3])]);
        let whole = Parted::of(&[charge("tg:1{3}a"), charge("tg:1{3}b")], place);
        assert_eq!(whole, Some(Parted::Whole(place(b"3"))));
        assert_eq!(Parted::of(&[], place), None);
    }

    #[test]
    fn the_counter_is_what_follows_the_tag() {
        assert_eq!(after_hash_tag(b"tg:1{user}Zm9v"), b"Zm9v");
        assert_eq!(after_hash_tag(b"tg"), b"");
    }
}
