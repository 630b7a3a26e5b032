//! Servers that know nothing of each other, each with a share of the keys.
//!
//! Rendezvous hashing: every member draws a number for a key, by a hash that all processes share, and the highest has it. One
//! more member takes its keys evenly from all others and moves nothing between them; a member that is away leaves each of
//! its keys to the one with the next highest number.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use siphasher::sip::SipHasher13;

use super::keeper::ManagedServer;
use super::place::ServerId;
use super::server::Server;
use super::stats::BreakerState;
use crate::redis::url::Address;

/// All processes have to place keys alike, whichever version they are.
const RING_KEY: (u64, u64) = (0x7469_6465_6761_7465, 0x7265_6469_732b_7269);

/// Servers that know nothing of each other.
pub(super) struct Ring {
    members: Vec<Member>,
    /// How many keys were placed at another member than the first, because that one is away.
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
            .map(|kept| Member { address_hash: member_hash(&kept.server.address()), managed: kept })
            .collect();
        Self { members, moved_keys: AtomicU64::new(0) }
    }

    /// The first in the order of this tag that is not away; if all are, the first.
    pub fn locate(&self, tag: &[u8]) -> ServerId {
        let tag = hash(tag);
        let (mut first, mut first_there) = ((0, 0), None);
        for (index, member) in self.members.iter().enumerate() {
            let drawn = (rendezvous_score(member.address_hash, tag), index);
            first = first.max(drawn);
            if member.managed.server.breaker.state() == BreakerState::Closed {
                first_there = first_there.max(Some(drawn));
            }
        }
        let there = first_there.unwrap_or(first);
        if there != first {
            self.moved_keys.fetch_add(1, Relaxed);
        }
        ServerId::from_index(there.1).unwrap_or(ServerId::FIRST)
    }

    pub fn server(&self, id: ServerId) -> Option<&std::sync::Arc<Server>> {
        self.members.get(id.index()).map(|member| &member.managed.server)
    }

    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.members.iter().map(|member| &*member.managed.server)
    }
}

/// What a member is known by, wherever it stands in the URL.
fn member_hash(address: &Address) -> u64 {
    hash(address.to_string().as_bytes())
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(RING_KEY.0, RING_KEY.1);
    hasher.write(bytes);
    hasher.finish()
}

/// What a member draws for a tag. Both are well mixed already; this makes every bit of either matter to all of it
/// (the finalizer of MurmurHash3).
fn rendezvous_score(member: u64, tag: u64) -> u64 {
    let mut mixed = member ^ tag.rotate_left(32);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::{rendezvous_score, hash};

    const TAGS: usize = 30_000;

    fn owners(members: usize) -> Vec<usize> {
        let numbers: Vec<_> =
            (0..members).map(|member| hash(format!("10.0.0.{member}:6379").as_bytes())).collect();
        let owner = |tag: u64| (0..members).max_by_key(|&member| rendezvous_score(numbers[member], tag)).expect("some");
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
        // Fixed by hand: a process of another version has to find the same.
        let first: Vec<_> = owners(5).into_iter().take(12).collect();
        assert_eq!(first, [3, 4, 2, 0, 2, 0, 1, 0, 4, 4, 0, 0]);
    }
}
