//! Leases that change between any two portions of their copy.

use std::collections::BTreeMap;

use tidegate_core::{CopyProgress, Fence, Grant, LeaseEntry, Leases, Timestamp};

use super::{COPIED_TIMES_MAX, LeasesCopy, PORTION_LINES_MAX};

const LEASES: u64 = 20_000;
const NOW: Timestamp = Timestamp::from_nanos(1_000);
const TTL_NS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(NOW.as_nanos() + nanos)
}

/// Leases with fences from one, each of which expires a nanosecond after the one before.
fn many() -> (Leases, BTreeMap<u64, Grant>) {
    let mut leases = Leases::default();
    let grant = |fence| Grant { expires: at(TTL_NS + fence), fence: Fence::new(fence) };
    (1..=LEASES).for_each(|fence| leases.hold(grant(fence), fence, NOW));
    (leases, (1..=LEASES).map(|fence| (fence, grant(fence))).collect())
}

/// The leases of a copy, which have to make leases.
fn entries(copy: LeasesCopy) -> Vec<LeaseEntry> {
    let lines = copy.into_lines();
    let [written, last_fence, _] = lines[0];
    let entry = |[expires, fence, units]: &[u64; 3]| LeaseEntry {
        grant: Grant { expires: Timestamp::from_nanos(*expires), fence: Fence::new(*fence) },
        units: *units,
    };
    let entries: Vec<LeaseEntry> = lines[1..].iter().map(entry).collect();
    Leases::from_entries(Timestamp::from_nanos(written), Fence::new(last_fence), entries.clone()).unwrap();
    entries
}

#[test]
fn leases_that_are_left_alone_are_copied_as_they_are() {
    let (leases, _) = many();
    let mut copy = LeasesCopy::default();
    let mut portions = 1;
    while copy.go_on(&leases, PORTION_LINES_MAX) != CopyProgress::Whole {
        portions += 1;
        assert!(copy.seen.len() <= portions * PORTION_LINES_MAX);
    }
    assert_eq!(portions, usize::try_from(LEASES).unwrap().div_ceil(PORTION_LINES_MAX));
    assert_eq!(entries(copy), leases.entries().collect::<Vec<_>>());
}

/// Of the leases that were there, a third is renewed between any two portions, some again and again, a third is
/// released little by little, and new ones come.
#[test]
fn every_lease_that_is_held_all_along_is_copied_once() {
    let (mut leases, mut grants) = many();
    let (mut next_fence, mut step) = (LEASES + 1, 0_u64);
    let mut copy = LeasesCopy::default();
    let mut doubles = 0;
    while copy.go_on(&leases, 256) != CopyProgress::Whole {
        for _ in 0..100 {
            step += 1;
            let fence = 1 + step * 7_919 % LEASES;
            let now = at(step);
            match fence % 3 {
                0 => {
                    doubles += usize::from(copy.seen.iter().any(|seen| seen.grant.fence.get() == fence));
                    let renewed = leases.renew(grants[&fence], at(TTL_NS + LEASES + step), now).unwrap();
                    grants.insert(fence, renewed);
                }
                1 => drop(leases.release(grants[&fence], now)),
                _ => {
                    let expires = at(TTL_NS + LEASES + step);
                    leases.hold(Grant { expires, fence: Fence::new(next_fence) }, 1, now);
                    next_fence += 1;
                }
            }
        }
    }
    assert!(doubles > 100, "only {doubles} leases were renewed after they were copied");
    let entries = entries(copy);
    let copied: BTreeMap<u64, LeaseEntry> =
        entries.iter().map(|entry| (entry.grant.fence.get(), *entry)).collect();
    assert_eq!(copied.len(), entries.len(), "some are there twice");
    // Every renewal moved a lease behind all others, where the copy had not been, so it has the latest end of each.
    for fence in (1..=LEASES).filter(|fence| fence % 3 != 1) {
        let latest = LeaseEntry { grant: grants[&fence], units: fence };
        assert_eq!(copied.get(&fence), Some(&latest), "lease {fence}");
    }
}

/// All are renewed after every portion, so the copy would never come to an end.
#[test]
fn a_copy_that_is_overtaken_again_and_again_ends() {
    let (mut leases, mut grants) = many();
    let mut copy = LeasesCopy::default();
    let mut round = 0;
    while copy.go_on(&leases, PORTION_LINES_MAX) != CopyProgress::Whole {
        round += 1;
        for (fence, grant) in &mut grants {
            *grant = leases.renew(*grant, at(TTL_NS + round * 2 * LEASES + fence), at(round)).unwrap();
        }
    }
    assert!(copy.seen.len() <= (1 + COPIED_TIMES_MAX) * grants.len() + PORTION_LINES_MAX);
    assert_eq!(entries(copy).len(), grants.len());
}
