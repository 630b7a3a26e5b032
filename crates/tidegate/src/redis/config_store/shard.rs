//! The shards: which one has a key, and the names of its keys in Redis.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// How many shards there are. The scripts know this number too.
pub(super) const SHARDS: usize = 16;

/// The hash tag of each shard. The slot of tag i is near the middle of the i-th sixteenth of all slots, so a cluster whose
/// masters have equal ranges gets equal shares.
const TAGS: [&str; SHARDS] = [
    "0.13", "1.18", "2.20", "3.8", "4.67", "5.229", "6.43", "7.48", "8.20", "9.38", "10.48", "11.43", "12.1",
    "13.2", "14.108", "15.20",
];

/// All nodes must find a key in the same shard, whatever their version.
const SHARD_HASH_KEY: (u64, u64) = (0x7469_6465_6761_7465, 0x636f_6e66_6967_2b31);

/// One of the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shard(usize);

/// A key of a shard in Redis.
#[derive(Clone, Copy, Debug)]
pub(super) enum ShardKey {
    Values,
    Keys,
    Log,
    State,
}

impl Shard {
    /// The shard of a key.
    pub fn of_key(key: &str) -> Self {
        let mut hasher = SipHasher13::new_with_keys(SHARD_HASH_KEY.0, SHARD_HASH_KEY.1);
        hasher.write(key.as_bytes());
        let shards = SHARDS as u64;
        Self(usize::try_from(hasher.finish() % shards).unwrap_or(0))
    }

    pub fn all() -> impl Iterator<Item = Self> {
        (0..SHARDS).map(Self)
    }

    /// Its number, from 0.
    pub fn index(self) -> usize {
        self.0
    }

    /// The hash tag of its keys.
    pub fn tag(self) -> &'static str {
        TAGS[self.0]
    }

    /// The name of one of its keys.
    pub fn key_name(self, namespace: &str, key: ShardKey) -> String {
        let key = match key {
            ShardKey::Values => "values",
            ShardKey::Keys => "keys",
            ShardKey::Log => "log",
            ShardKey::State => "state",
        };
        format!("{namespace}:1config{{{}}}{key}", self.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::{SHARDS, Shard, ShardKey};
    use crate::redis::key_name::hash_tag;
    use crate::redis::topology::hash_slot::{SLOT_COUNT, slot_of};

    #[test]
    fn the_slots_of_the_shards_are_spread_evenly() {
        for (index, shard) in Shard::all().enumerate() {
            let slot = usize::from(slot_of(shard.tag().as_bytes()));
            let sixteenth = SLOT_COUNT / SHARDS;
            assert_eq!(slot / sixteenth, index);
            assert!((sixteenth / 4..sixteenth * 3 / 4).contains(&(slot % sixteenth)), "{shard:?}: {slot}");
            let name = shard.key_name("tg", ShardKey::Log);
            assert_eq!(hash_tag(name.as_bytes()), shard.tag().as_bytes());
        }
    }

    #[test]
    fn keys_stay_in_their_shards() {
        // Fixed values: nodes of every version must find the same.
        let shards: Vec<usize> = (0..12)
            .map(|number| Shard::of_key(&format!("override/api/per-user/user={number}")).index())
            .collect();
        assert_eq!(shards, [3, 15, 13, 5, 11, 1, 13, 2, 6, 10, 11, 3]);
        let mut counts = [0; SHARDS];
        (0..16_000).for_each(|number| counts[Shard::of_key(&format!("user={number}")).index()] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
