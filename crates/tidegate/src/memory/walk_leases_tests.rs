//! Leases that change between portions of their copy.

use std::collections::BTreeMap;

use tidegate_core::{CopyProgress, FencingToken, Grant, LeaseEntry, Leases, Timestamp};

use super::{COPY_FACTOR_MAX, LeasesCopy, PORTION_ROWS_MAX};

const LEASES: u64 = 20_000;
const NOW: Timestamp = Timestamp::from_nanos(1_000);
const TTL_NS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(NOW.as_nanos() + nanos)
}

/// Leases with fencing tokens from one. Each expires a nanosecond after the one before.
fn many_leases() -> (Leases, BTreeMap<u64, Grant>) {
    let mut leases = Leases::default();
    let grant = |fence| Grant { expires: at(TTL_NS + fence), fencing_token: FencingToken::new(fence) };
    (1..=LEASES).for_each(|fence| leases.acquire(grant(fence), fence, NOW));
    (leases, (1..=LEASES).map(|fence| (fence, grant(fence))).collect())
}

/// The leases of a copy. Checks that they are valid.
fn entries(copy: LeasesCopy) -> Vec<LeaseEntry> {
    let rows = copy.into_rows();
    let [written, last_fence, _] = rows[0];
    let entry = |[expires, fence, units]: &[u64; 3]| LeaseEntry {
        grant: Grant { expires: Timestamp::from_nanos(*expires), fencing_token: FencingToken::new(*fence) },
        units: *units,
    };
    let entries: Vec<LeaseEntry> = rows[1..].iter().map(entry).collect();
    Leases::from_entries(Timestamp::from_nanos(written), FencingToken::new(last_fence), entries.clone())
        .unwrap();
    entries
}

#[test]
fn unchanged_leases_are_copied_as_they_are() {
    let (leases, _) = many_leases();
    let mut copy = LeasesCopy::default();
    let mut portions = 1;
    while copy.copy_next(&leases, PORTION_ROWS_MAX) != CopyProgress::Complete {
        portions += 1;
        assert!(copy.copied.len() <= portions * PORTION_ROWS_MAX);
    }
    assert_eq!(portions, usize::try_from(LEASES).unwrap().div_ceil(PORTION_ROWS_MAX));
    assert_eq!(entries(copy), leases.entries().collect::<Vec<_>>());
}

/// Between portions, a third of the leases is renewed, some repeatedly. A third is released bit by bit, and new ones
/// are added.
#[test]
fn every_lease_held_throughout_is_copied_once() {
    let (mut leases, mut grants) = many_leases();
    let (mut next_fence, mut step) = (LEASES + 1, 0_u64);
    let mut copy = LeasesCopy::default();
    let mut doubles = 0;
    while copy.copy_next(&leases, 256) != CopyProgress::Complete {
        for _ in 0..100 {
            step += 1;
            let fence = 1 + step * 7_919 % LEASES;
            let now = at(step);
            match fence % 3 {
                0 => {
                    doubles +=
                        usize::from(copy.copied.iter().any(|lease| lease.grant.fencing_token.get() == fence));
                    let renewed = leases.renew(grants[&fence], at(TTL_NS + LEASES + step), now).unwrap();
                    grants.insert(fence, renewed);
                }
                1 => drop(leases.release(grants[&fence], now)),
                _ => {
                    let expires = at(TTL_NS + LEASES + step);
                    leases.acquire(Grant { expires, fencing_token: FencingToken::new(next_fence) }, 1, now);
                    next_fence += 1;
                }
            }
        }
    }
    assert!(doubles > 100, "only {doubles} leases were renewed after they were copied");
    let entries = entries(copy);
    let copied: BTreeMap<u64, LeaseEntry> =
        entries.iter().map(|entry| (entry.grant.fencing_token.get(), *entry)).collect();
    assert_eq!(copied.len(), entries.len(), "some are there twice");
    // Every renewal moved a lease to the end, where the copy had not been, so the copy has the latest expiry of each.
    for fence in (1..=LEASES).filter(|fence| fence % 3 != 1) {
        let latest = LeaseEntry { grant: grants[&fence], units: fence };
        assert_eq!(copied.get(&fence), Some(&latest), "lease {fence}");
    }
}

/// All leases are renewed after every portion, so without a bound the copy would never end.
#[test]
fn a_copy_ends_even_if_every_lease_is_renewed_after_each_portion() {
    let (mut leases, mut grants) = many_leases();
    let mut copy = LeasesCopy::default();
    let mut round = 0;
    while copy.copy_next(&leases, PORTION_ROWS_MAX) != CopyProgress::Complete {
        round += 1;
        for (fence, grant) in &mut grants {
            *grant = leases.renew(*grant, at(TTL_NS + round * 2 * LEASES + fence), at(round)).unwrap();
        }
    }
    assert!(copy.copied.len() <= (1 + COPY_FACTOR_MAX) * grants.len() + PORTION_ROWS_MAX);
    assert_eq!(entries(copy).len(), grants.len());
}
