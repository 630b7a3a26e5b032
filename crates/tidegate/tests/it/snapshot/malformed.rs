//! Files made by hand from the description of the format: every checksum is right, and what they say is not.

use std::fs;

use tidegate::MemoryStore;
use tidegate::snapshot::RestoreStatus;

use crate::snapshot::{TestDirectory, LEDGER, MEMORY_MAX, NOW, PACKED, charge, counter};

const PACKED_BLOCK: u32 = 1;
const LEDGER_BLOCK: u32 = 2;
const LEASES_BLOCK: u32 = 3;
const LAST_BLOCK: u32 = 255;
/// Long after [`NOW`].
const LATE: u64 = u64::MAX / 2;

/// A file in the making.
struct SnapshotBytes {
    bytes: Vec<u8>,
    blocks: u64,
    entries: u64,
}

impl SnapshotBytes {
    /// The header of a real snapshot: the check value of its seed cannot be made by hand.
    fn new(directory: &TestDirectory) -> Self {
        MemoryStore::bounded(MEMORY_MAX).snapshot(directory.file(), NOW).unwrap();
        let bytes = fs::read(directory.file()).unwrap()[..48].to_vec();
        Self { bytes, blocks: 0, entries: 0 }
    }

    fn block(mut self, kind: u32, entries: u32, words: &[u64]) -> Self {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let length = u32::try_from(payload.len()).unwrap();
        let head: Vec<u8> = [kind, entries, length].iter().flat_map(|word| word.to_le_bytes()).collect();
        let crc = crc32fast::hash(&[&self.blocks.to_le_bytes()[..], &head, &payload].concat());
        self.bytes.extend([&head[..], &crc.to_le_bytes(), &payload].concat());
        self.blocks += 1;
        self.entries += u64::from(entries);
        self
    }

    fn end(self) -> Vec<u8> {
        let totals = [self.entries, self.blocks];
        self.block(LAST_BLOCK, 0, &totals).bytes
    }
}

fn restore_status(directory: &TestDirectory, bytes: &[u8]) -> RestoreStatus {
    fs::write(directory.file(), bytes).unwrap();
    let restored = MemoryStore::restore(directory.file(), MEMORY_MAX, NOW);
    for counter in [counter(PACKED), counter(LEDGER)] {
        charge(&restored.store, &counter, 0, NOW);
    }
    restored.status
}

#[test]
fn a_file_made_by_hand_is_restored() {
    let directory = TestDirectory::new();
    let bytes = SnapshotBytes::new(&directory)
        .block(PACKED_BLOCK, 2, &[1, LATE, 1, 2, 5, 5])
        .block(PACKED_BLOCK, 1, &[1, LATE, 2])
        .block(LEDGER_BLOCK, 3, &[1, LATE, 1, 0, 5, 1, 2, 9, 1, 0, 5, 1, 3, LATE, 1, 1, 7, 1])
        .block(LEDGER_BLOCK, 1, &[3, LATE, 1, 0, 8, 1])
        .block(LEASES_BLOCK, 2, &[1, LATE, 2, 0, 5, 7, 0, LATE, 7, 1, 2, 9, 1, 0, 5, 7, 0])
        .end();
    // One state of each kind has expired, and one came twice.
    assert_eq!(
        restore_status(&directory, &bytes),
        RestoreStatus::Restored { restored: 4, evicted: 0, expired: 3, written_at: NOW }
    );
    let empty = SnapshotBytes::new(&directory).end();
    assert_eq!(
        restore_status(&directory, &empty),
        RestoreStatus::Restored { restored: 0, evicted: 0, expired: 0, written_at: NOW }
    );
}

#[test]
fn malformed_entries_are_refused() {
    let directory = TestDirectory::new();
    let file = || SnapshotBytes::new(&directory);
    // The key's time is 5 and its last fence 7.
    let leases = |leases: &[u64]| {
        let head = [1, LATE, 1 + leases.len() as u64 / 3, 0, 5, 7, 0];
        file().block(LEASES_BLOCK, 1, &[&head[..], leases].concat()).end()
    };
    let cases: [(&str, Vec<u8>); 21] = [
        ("no such kind", file().block(4, 0, &[]).end()),
        ("no such kind", file().block(0, 0, &[]).end()),
        ("do not fill it", file().block(PACKED_BLOCK, 2, &[1, LATE, 1]).end()),
        ("do not fill it", file().block(PACKED_BLOCK, u32::MAX, &[1, LATE, 1]).end()),
        ("no tag", file().block(PACKED_BLOCK, 1, &[0, LATE, 1]).end()),
        ("no tag", file().block(LEDGER_BLOCK, 1, &[0, LATE, 1, 0, 5, 1]).end()),
        ("no lines", file().block(LEDGER_BLOCK, 1, &[1, LATE, 0, 0]).end()),
        ("longer than its block", file().block(LEDGER_BLOCK, 1, &[1, LATE, 2, 0, 5, 1]).end()),
        ("longer than its block", file().block(LEDGER_BLOCK, 1, &[1, LATE, u64::MAX / 8, 0, 5, 1]).end()),
        ("longer than its block", file().block(LEDGER_BLOCK, 2, &[1, LATE, 1, 0, 5, 1]).end()),
        ("do not fill it", file().block(LEDGER_BLOCK, 1, &[1, LATE, 1, 0, 5, 1, 2]).end()),
        ("order of time", file().block(LEDGER_BLOCK, 1, &[1, LATE, 2, 0, 5, 1, 5, 1]).end()),
        ("units than it can", file().block(LEDGER_BLOCK, 1, &[1, LATE, 1, 0, 5, 0]).end()),
        ("units than it can", file().block(LEDGER_BLOCK, 1, &[1, LATE, 1, 0, 5, u64::MAX]).end()),
        ("without units", file().block(LEASES_BLOCK, 1, &[1, LATE, 1, 0, 5, 7, 1]).end()),
        ("in which they expire", leases(&[LATE, 6, 1, LATE, 5, 1])),
        ("in which they expire", leases(&[LATE, 6, 1, LATE, 6, 1])),
        ("a lease holds nothing", leases(&[LATE, 6, 0])),
        ("than was handed out", leases(&[LATE, 8, 1])),
        ("other blocks and entries", file().block(LAST_BLOCK, 0, &[0, 1]).bytes),
        ("other blocks and entries", file().block(LAST_BLOCK, 0, &[0]).bytes),
    ];
    for (expected, bytes) in cases {
        let found = restore_status(&directory, &bytes);
        let RestoreStatus::Refused(error) = &found else { panic!("{expected}: {found}") };
        assert!(error.is_damaged() && error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.to_string().contains("at byte 48"), "{error}");
    }
}

#[test]
fn a_ledger_with_a_part_missing_is_refused() {
    let directory = TestDirectory::new();
    let begun = || SnapshotBytes::new(&directory).block(LEDGER_BLOCK, 1, &[1, LATE, 1, 2, 5, 1]);
    let continued = [
        begun().end(),
        begun().block(PACKED_BLOCK, 1, &[1, LATE, 1]).end(),
        begun().block(LEASES_BLOCK, 1, &[1, LATE, 2, 0, 5, 7, 0, LATE, 7, 1]).end(),
        begun().block(LEDGER_BLOCK, 1, &[1, LATE, 1, 0, 6, 1]).end(),
        begun().block(LEDGER_BLOCK, 1, &[2, LATE, 2, 0, 6, 1, 7, 1]).end(),
        begun().block(LEDGER_BLOCK, 1, &[1, LATE, 1, u64::MAX, 6, 1]).end(),
    ];
    for bytes in continued {
        let found = restore_status(&directory, &bytes);
        assert!(found.to_string().contains("a part of an entry is missing"), "{found}");
    }
    let whole = begun().block(LEDGER_BLOCK, 1, &[1, LATE, 2, 0, 6, 1, 7, 1]).end();
    assert!(matches!(restore_status(&directory, &whole), RestoreStatus::Restored { restored: 1, .. }));
}

#[test]
fn blocks_out_of_order_are_refused() {
    let directory = TestDirectory::new();
    let good = SnapshotBytes::new(&directory)
        .block(PACKED_BLOCK, 1, &[1, LATE, 1])
        .block(PACKED_BLOCK, 1, &[2, LATE, 1])
        .end();
    assert!(matches!(restore_status(&directory, &good), RestoreStatus::Restored { restored: 2, .. }));
    let (first, second) = (48..88, 88..128);
    let swapped = [&good[..48], &good[second.clone()], &good[first.clone()], &good[128..]].concat();
    let doubled = [&good[..88], &good[first], &good[128..]].concat();
    let missing = [&good[..48], &good[second], &good[128..]].concat();
    for bytes in [swapped, doubled, missing] {
        let found = restore_status(&directory, &bytes);
        assert!(found.to_string().contains("checksum does not match"), "{found}");
    }
}

#[test]
fn a_false_length_allocates_nothing() {
    let directory = TestDirectory::new();
    let mut bytes = SnapshotBytes::new(&directory).block(PACKED_BLOCK, 1, &[1, LATE, 1]).end();
    for length in [64 * 1024 + 1, u32::MAX] {
        bytes[56..60].copy_from_slice(&length.to_le_bytes());
        let found = restore_status(&directory, &bytes);
        assert!(found.to_string().contains("a block is larger than blocks are"), "{found}");
    }
}
