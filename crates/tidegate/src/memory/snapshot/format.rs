//! The bytes of a snapshot. Numbers are unsigned and little endian.
//!
//! ```text
//! header      8   "TIDESNAP"
//!             4   format version
//!             4   CRC-32 of the rest of the header
//!             8   when it was written, in nanoseconds since the epoch
//!            16   the seed of the hash that gave the tags
//!             8   the seed's check value
//!
//! block       4   kind                                                        any number of them
//!             4   entries
//!             4   bytes of the payload, at most 64 KiB
//!             4   CRC-32 of the block's number (8 bytes, from 0), the three fields above and the payload
//!             n   payload
//!
//! kind 4      8 bytes per entry: the limits that own packed states, at most 31, before the states (since version 2)
//!             8   the counter's id, zero if this number is free
//!
//! kind 5      25 bytes per entry: a packed state (since version 2)
//!             8   tag
//!            16   state
//!             1   the number of its limit in kind 4, from 1, zero if it is not known
//!
//! kind 1      24 bytes per entry: a packed state (only in version 1)
//!             8   tag, never zero
//!            16   state
//!
//! kind 2      32 bytes per entry and 16 per row: a usage log, or a part of one
//!             8   tag, never zero
//!             8   when it becomes idle
//!             8   rows in this part, at least one
//!             8   rows in the parts after this one, which follow directly
//!            16   stamp, ascending; units, at least one                       for each row
//!
//! kind 3      32 bytes per entry and 24 per row: the leases of a key, or a part of them
//!             8   tag, never zero
//!             8   when they become idle
//!             8   rows in this part, at least one
//!             8   rows in the parts after this one, which follow directly
//!            24   the key's time; the last fencing token; zero                the first row
//!            24   expiry; fencing token; units, at least one                  for each lease, ordered by these
//!
//! kind 255    the last block, with nothing after it: no entries
//!             8   entries in all blocks
//!             8   blocks before this one
//! ```
//!
//! The magic bytes and the version keep their position in every later version. Nothing else has to. The block number in
//! the checksum detects a block that is missing, duplicated or moved, and the last block detects a missing end. A kind
//! that a version does not know is damage: new kinds need a new version.
//!
//! To add a kind of state: add a kind here, a file beside `packed.rs` that writes and restores it (or, for rows of
//! numbers, a `SnapshotState` in `rows.rs`), and a call in `write.rs` and in `restore.rs`.

use tidegate_core::Timestamp;

use super::error::SnapshotProblem;

/// The version that is written. Older versions are read while there is a reader for them.
pub(super) const FORMAT_VERSION: u32 = 2;
const FORMAT_VERSION_MIN: u32 = 1;

pub(super) const HEADER_BYTES: usize = 48;
pub(super) const BLOCK_HEADER_BYTES: usize = 16;
pub(super) const BLOCK_PAYLOAD_BYTES_MAX: usize = 64 << 10;

const MAGIC: [u8; 8] = *b"TIDESNAP";
const MAGIC_AND_VERSION_BYTES: usize = 12;
const HEADER_CRC_BYTES: std::ops::Range<usize> = 12..16;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub written_at: Timestamp,
    pub seed: [u64; 2],
    pub seed_check: u64,
}

/// The kind of a block's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Packed = 1,
    UsageLogs = 2,
    Leases = 3,
    Owners = 4,
    OwnedPacked = 5,
    End = 255,
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub kind: u32,
    pub entries: u32,
    pub payload_bytes: u32,
    pub crc: u32,
}

/// Reads one number after the other.
pub(super) struct ByteReader<'a>(pub &'a [u8]);

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let [seed_0, seed_1] = self.seed;
        let words = [self.written_at.as_nanos(), seed_0, seed_1, self.seed_check];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        for (field, word) in bytes[HEADER_CRC_BYTES.end..].chunks_exact_mut(8).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        let crc = header_crc(&bytes);
        bytes[HEADER_CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the header from the first bytes of a file, which may be too few.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, SnapshotProblem> {
        let at_byte = bytes.len() as u64;
        if bytes.is_empty() || !bytes.starts_with(&MAGIC[..MAGIC.len().min(bytes.len())]) {
            return Err(SnapshotProblem::NotASnapshot);
        }
        let Some((start, rest)) = bytes.split_at_checked(MAGIC_AND_VERSION_BYTES) else {
            return Err(SnapshotProblem::Truncated { at_byte });
        };
        let damaged = |what| SnapshotProblem::Damaged { at_byte: 0, what };
        match ByteReader(&start[MAGIC.len()..]).u32() {
            Some(FORMAT_VERSION_MIN..=FORMAT_VERSION) => {}
            Some(version) if version > FORMAT_VERSION => return Err(SnapshotProblem::NewerVersion(version)),
            _ => return Err(damaged("unknown format version")),
        }
        if bytes.len() < HEADER_BYTES {
            return Err(SnapshotProblem::Truncated { at_byte });
        }
        let mut fields = ByteReader(rest);
        let fields =
            (|| Some((fields.u32()?, fields.u64()?, [fields.u64()?, fields.u64()?], fields.u64()?)))();
        match fields {
            Some((crc, written_at, seed, seed_check)) if crc == header_crc(bytes) => {
                Ok(Self { written_at: Timestamp::from_nanos(written_at), seed, seed_check })
            }
            _ => Err(damaged("the header's checksum does not match")),
        }
    }
}

impl BlockKind {
    pub(super) fn from_code(code: u32) -> Option<Self> {
        let kinds = [Self::Packed, Self::UsageLogs, Self::Leases, Self::Owners, Self::OwnedPacked, Self::End];
        kinds.into_iter().find(|kind| *kind as u32 == code)
    }
}

impl BlockHeader {
    pub(super) fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let words = [self.kind, self.entries, self.payload_bytes, self.crc];
        for (field, word) in bytes.chunks_exact_mut(4).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Self {
        let mut words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or(0);
        Self { kind: word(), entries: word(), payload_bytes: word(), crc: word() }
    }

    /// The checksum that this block must have if its number is `number`.
    pub(super) fn expected_crc(&self, number: u64, payload: &[u8]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&number.to_le_bytes());
        crc.update(&self.to_bytes()[..BLOCK_HEADER_BYTES - size_of::<u32>()]);
        crc.update(payload);
        crc.finalize()
    }
}

impl ByteReader<'_> {
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }
}

/// The checksum of a header, without the checksum field itself.
fn header_crc(header: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header[..HEADER_CRC_BYTES.start]);
    crc.update(&header[HEADER_CRC_BYTES.end..HEADER_BYTES]);
    crc.finalize()
}
