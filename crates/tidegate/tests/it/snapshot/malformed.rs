//! Files made by hand from the description of the format: every checksum is right, but the contents are invalid.

use std::fs;

use tidegate::snapshot::RestoreStatus;
use tidegate::{MemoryStore, Nanos};

use crate::snapshot::{MEMORY_MAX, NOW, PACKED, TestDirectory, USAGE_LOG, charge, counter};

const PACKED_BLOCK: u32 = 1;
const USAGE_LOG_BLOCK: u32 = 2;
const LEASES_BLOCK: u32 = 3;
const OWNERS_BLOCK: u32 = 4;
const OWNED_PACKED_BLOCK: u32 = 5;
const LAST_BLOCK: u32 = 255;
/// Long after [`NOW`].
const LATE: u64 = u64::MAX / 2;

/// A file that is being made.
struct SnapshotBytes {
    bytes: Vec<u8>,
    blocks: u64,
    entries: u64,
}

impl SnapshotBytes {
    /// The header of a real snapshot, because the check value of its seed cannot be made by hand.
    fn new(directory: &TestDirectory) -> Self {
        MemoryStore::bounded(MEMORY_MAX).snapshot(directory.file(), NOW).unwrap();
        let bytes = fs::read(directory.file()).unwrap()[..48].to_vec();
        Self { bytes, blocks: 0, entries: 0 }
    }

    fn block(self, kind: u32, entries: u32, words: &[u64]) -> Self {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.block_bytes(kind, entries, &payload)
    }

    fn block_bytes(mut self, kind: u32, entries: u32, payload: &[u8]) -> Self {
        let length = u32::try_from(payload.len()).unwrap();
        let header: Vec<u8> = [kind, entries, length].iter().flat_map(|word| word.to_le_bytes()).collect();
        let crc = crc32fast::hash(&[&self.blocks.to_le_bytes()[..], &header, payload].concat());
        self.bytes.extend([&header[..], &crc.to_le_bytes(), payload].concat());
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
    for counter in [counter(PACKED), counter(USAGE_LOG)] {
        charge(&restored.store, &counter, 0, NOW);
    }
    restored.status
}

#[test]
fn a_file_made_by_hand_is_restored() {
    let directory = TestDirectory::new();
    let bytes = SnapshotBytes::new(&directory)
        .block(PACKED_BLOCK, 2, &[1_001, LATE, 1, 1_002, 5, 5])
        .block(PACKED_BLOCK, 1, &[1_001, LATE, 2])
        .block(USAGE_LOG_BLOCK, 3, &[1, LATE, 1, 0, 5, 1, 2, 9, 1, 0, 5, 1, 3, LATE, 1, 1, 7, 1])
        .block(USAGE_LOG_BLOCK, 1, &[3, LATE, 1, 0, 8, 1])
        .block(LEASES_BLOCK, 2, &[1, LATE, 2, 0, 5, 7, 0, LATE, 7, 1, 2, 9, 1, 0, 5, 7, 0])
        .end();
    // One state of each kind has expired, and one is there twice.
    assert_eq!(
        restore_status(&directory, &bytes),
        RestoreStatus::Restored {
            restored: 4,
            evicted: 0,
            expired: 3,
            written_at: NOW,
            moved_back: Nanos::ZERO
        }
    );
    let empty = SnapshotBytes::new(&directory).end();
    assert_eq!(
        restore_status(&directory, &empty),
        RestoreStatus::Restored {
            restored: 0,
            evicted: 0,
            expired: 0,
            written_at: NOW,
            moved_back: Nanos::ZERO
        }
    );
}

#[test]
fn malformed_entries_are_refused() {
    let directory = TestDirectory::new();
    let file = || SnapshotBytes::new(&directory);
    // The key's time is 5, and its last fencing token is 7.
    let leases = |leases: &[u64]| {
        let header = [1, LATE, 1 + leases.len() as u64 / 3, 0, 5, 7, 0];
        file().block(LEASES_BLOCK, 1, &[&header[..], leases].concat()).end()
    };
    let cases: [(&str, Vec<u8>); 25] = [
        ("unknown kind", file().block(6, 0, &[]).end()),
        ("unknown kind", file().block(0, 0, &[]).end()),
        ("do not fill their block", file().block(PACKED_BLOCK, 2, &[1, LATE, 1]).end()),
        ("do not fill their block", file().block(PACKED_BLOCK, u32::MAX, &[1, LATE, 1]).end()),
        ("no tag", file().block(PACKED_BLOCK, 1, &[0, LATE, 1]).end()),
        ("owners do not fill", file().block(OWNERS_BLOCK, 2, &[1]).end()),
        ("owners do not fill", file().block(OWNERS_BLOCK, 64, &[1; 64]).end()),
        // 25 bytes: the number of an owner that is not listed.
        ("unknown owner", file().block_bytes(OWNED_PACKED_BLOCK, 1, &[9; 25]).end()),
        ("do not fill their block", file().block_bytes(OWNED_PACKED_BLOCK, 1, &[0; 24]).end()),
        ("no tag", file().block(USAGE_LOG_BLOCK, 1, &[0, LATE, 1, 0, 5, 1]).end()),
        ("no rows", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 0, 0]).end()),
        ("longer than its block", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 2, 0, 5, 1]).end()),
        ("longer than its block", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, u64::MAX / 8, 0, 5, 1]).end()),
        ("longer than its block", file().block(USAGE_LOG_BLOCK, 2, &[1, LATE, 1, 0, 5, 1]).end()),
        ("do not fill their block", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, 0, 5, 1, 2]).end()),
        ("order of time", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 2, 0, 5, 1, 5, 1]).end()),
        ("too few or too many units", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, 0, 5, 0]).end()),
        ("too few or too many units", file().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, 0, 5, u64::MAX]).end()),
        ("has units", file().block(LEASES_BLOCK, 1, &[1, LATE, 1, 0, 5, 7, 1]).end()),
        ("in which they expire", leases(&[LATE, 6, 1, LATE, 5, 1])),
        ("in which they expire", leases(&[LATE, 6, 1, LATE, 6, 1])),
        ("a lease holds nothing", leases(&[LATE, 6, 0])),
        ("than was handed out", leases(&[LATE, 8, 1])),
        ("totals in the last block", file().block(LAST_BLOCK, 0, &[0, 1]).bytes),
        ("totals in the last block", file().block(LAST_BLOCK, 0, &[0]).bytes),
    ];
    for (expected, bytes) in cases {
        let status = restore_status(&directory, &bytes);
        let RestoreStatus::Refused(error) = &status else { panic!("{expected}: {status}") };
        assert!(error.is_damaged() && error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.to_string().contains("at byte 48"), "{error}");
    }
}

#[test]
fn a_usage_log_with_a_part_missing_is_refused() {
    let directory = TestDirectory::new();
    let begun = || SnapshotBytes::new(&directory).block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, 2, 5, 1]);
    let continued = [
        begun().end(),
        begun().block(PACKED_BLOCK, 1, &[1, LATE, 1]).end(),
        begun().block(LEASES_BLOCK, 1, &[1, LATE, 2, 0, 5, 7, 0, LATE, 7, 1]).end(),
        begun().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, 0, 6, 1]).end(),
        begun().block(USAGE_LOG_BLOCK, 1, &[2, LATE, 2, 0, 6, 1, 7, 1]).end(),
        begun().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 1, u64::MAX, 6, 1]).end(),
    ];
    for bytes in continued {
        let status = restore_status(&directory, &bytes);
        assert!(status.to_string().contains("a part of an entry is missing"), "{status}");
    }
    let whole = begun().block(USAGE_LOG_BLOCK, 1, &[1, LATE, 2, 0, 6, 1, 7, 1]).end();
    assert!(matches!(restore_status(&directory, &whole), RestoreStatus::Restored { restored: 1, .. }));
}

#[test]
fn blocks_out_of_order_are_refused() {
    let directory = TestDirectory::new();
    let good = SnapshotBytes::new(&directory)
        .block(PACKED_BLOCK, 1, &[1_001, LATE, 1])
        .block(PACKED_BLOCK, 1, &[1_002, LATE, 1])
        .end();
    assert!(matches!(restore_status(&directory, &good), RestoreStatus::Restored { restored: 2, .. }));
    let (first, second) = (48..88, 88..128);
    let swapped = [&good[..48], &good[second.clone()], &good[first.clone()], &good[128..]].concat();
    let doubled = [&good[..88], &good[first], &good[128..]].concat();
    let missing = [&good[..48], &good[second], &good[128..]].concat();
    for bytes in [swapped, doubled, missing] {
        let status = restore_status(&directory, &bytes);
        assert!(status.to_string().contains("checksum does not match"), "{status}");
    }
}

#[test]
fn a_false_length_allocates_nothing() {
    let directory = TestDirectory::new();
    let mut bytes = SnapshotBytes::new(&directory).block(PACKED_BLOCK, 1, &[1, LATE, 1]).end();
    for length in [64 * 1024 + 1, u32::MAX] {
        bytes[56..60].copy_from_slice(&length.to_le_bytes());
        let status = restore_status(&directory, &bytes);
        assert!(status.to_string().contains("a block is too large"), "{status}");
    }
}
