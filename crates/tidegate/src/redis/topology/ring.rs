//! A ring of independent servers, each with a share of the keys.
//!
//! It uses rendezvous hashing. Every member has a score for a key, from a hash that all nodes share, and the
//! member with the highest score has the key. A new member takes its keys evenly from all others and moves
//! nothing between them. The keys of a member that is down go to the members with the next highest score, except
//! keys whose limit must never be exceeded.

use std::hash::Hasher;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use siphasher::sip::SipHasher13;

use super::location::{KeyMobility, ServerId};
use crate::redis::connection::{BreakerState, ManagedServer, Server};
use crate::redis::url::Address;

/// All nodes must locate keys equally, whatever their version.
const RING_KEY: (u64, u64) = (0x7469_6465_6761_7465, 0x7265_6469_732b_7269);

/// Servers that know nothing of each other.
pub(crate) struct Ring {
    members: Vec<Member>,
    /// How many keys went to another member than the first, because the first was down.
    pub moved_keys: AtomicU64,
}

struct Member {
    managed: ManagedServer,
    address_hash: u64,
}

impl Ring {
    pub fn new(members: Vec<ManagedServer>) -> Self {
        let members = members
            .into_iter()
            .map(|managed| Member { address_hash: member_hash(&managed.server.address()), managed })
            .collect();
        Self { members, moved_keys: AtomicU64::new(0) }
    }

    /// The first member in the order of this tag that is up. The first, even if it is down, for a key that never
    /// moves, and if all are down.
    pub fn locate(&self, tag: &[u8], mobility: KeyMobility) -> ServerId {
        let tag = hash(tag);
        let (mut first, mut first_up) = ((0, 0), None);
        for (index, member) in self.members.iter().enumerate() {
            let scored = (rendezvous_score(member.address_hash, tag), index);
            first = first.max(scored);
            if member.managed.server.breaker.state() == BreakerState::Closed {
                first_up = first_up.max(Some(scored));
            }
        }
        let chosen = match mobility {
            KeyMobility::Movable => first_up.unwrap_or(first),
            KeyMobility::Fixed => first,
        };
        if chosen != first {
            self.moved_keys.fetch_add(1, Relaxed);
        }
        ServerId::from_index(chosen.1).unwrap_or(ServerId::FIRST)
    }

    pub fn server(&self, id: ServerId) -> Option<&std::sync::Arc<Server>> {
        self.members.get(id.index()).map(|member| &member.managed.server)
    }

    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.members.iter().map(|member| &*member.managed.server)
    }
}

/// The hash of a member's address, which does not depend on its position in the URL.
fn member_hash(address: &Address) -> u64 {
    hash(address.to_string().as_bytes())
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(RING_KEY.0, RING_KEY.1);
    hasher.write(bytes);
    hasher.finish()
}

/// The score of a member for a tag. Both are well mixed already. This mixes every bit of either into the
/// result (the finalizer of MurmurHash3).
fn rendezvous_score(member: u64, tag: u64) -> u64 {
    let mut mixed = member ^ tag.rotate_left(32);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::{hash, rendezvous_score};

    const TAGS: usize = 30_000;

    fn owners(members: usize) -> Vec<usize> {
        let hashes: Vec<_> =
            (0..members).map(|member| hash(format!("10.0.0.{member}:6379").as_bytes())).collect();
        let owner = |tag: u64| {
            (0..members).max_by_key(|&member| rendezvous_score(hashes[member], tag)).expect("some")
        };
        (0..TAGS).map(|tag| owner(hash(format!("user:{tag}").as_bytes()))).collect()
    }

    #[test]
    fn one_more_member_takes_its_share_and_moves_nothing_else() {
        for members in [1, 2, 3, 5, 9] {
            let (before, after) = (owners(members), owners(members + 1));
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == members));
            let share = TAGS / (members + 1);
            assert!(moved.abs_diff(share) < share / 10, "{moved} of {TAGS} moved from {members}");
        }
    }

    #[test]
    fn key_locations_never_change() {
        // Fixed values: nodes of every version must find the same.
        let first: Vec<_> = owners(5).into_iter().take(12).collect();
        assert_eq!(first, [3, 4, 2, 0, 2, 0, 1, 0, 4, 4, 0, 0]);
    }
}
