//! Blocks: entries collected up to a bound, written with a checksum, and read back with every check made.

use std::io::{self, Read, Write};

use super::error::SnapshotProblem;
use super::format::{BLOCK_HEADER_BYTES, BLOCK_PAYLOAD_BYTES_MAX, BlockHeader, BlockKind, ByteReader};

/// Collects entries and writes a block whenever one is full.
pub(super) struct BlockWriter<W> {
    out: W,
    kind: BlockKind,
    /// Room for the head, then the payload, so that a block is one write.
    block: Vec<u8>,
    entries: u32,
    blocks_before: u64,
    entries_before: u64,
    bytes_before: u64,
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(out: W) -> Self {
        let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + BLOCK_PAYLOAD_BYTES_MAX);
        block.resize(BLOCK_HEADER_BYTES, 0);
        let kind = BlockKind::Packed;
        Self { out, kind, block, entries: 0, blocks_before: 0, entries_before: 0, bytes_before: 0 }
    }

    /// Begins an entry of this kind and of so many bytes, which the caller adds to the payload. An entry is
    /// never larger than a payload can be.
    pub(super) fn begin_entry(&mut self, kind: BlockKind, bytes: usize) -> io::Result<&mut Vec<u8>> {
        debug_assert!(bytes <= BLOCK_PAYLOAD_BYTES_MAX);
        let has_room = self.block.len() + bytes <= BLOCK_HEADER_BYTES + BLOCK_PAYLOAD_BYTES_MAX;
        if self.entries > 0 && (kind != self.kind || !has_room) {
            self.write_block()?;
        }
        self.kind = kind;
        self.entries += 1;
        Ok(&mut self.block)
    }

    /// Writes what is left and the last block; says how many bytes the blocks are.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if self.entries > 0 {
            self.write_block()?;
        }
        let totals = [self.entries_before, self.blocks_before];
        self.kind = BlockKind::End;
        self.block.extend(totals.iter().flat_map(|total| total.to_le_bytes()));
        self.write_block()?;
        Ok(self.bytes_before)
    }

    fn write_block(&mut self) -> io::Result<()> {
        let (head, payload) = self.block.split_at_mut(BLOCK_HEADER_BYTES);
        #[allow(clippy::cast_possible_truncation, reason = "at most BLOCK_PAYLOAD_BYTES_MAX")]
        let payload_bytes = payload.len() as u32;
        let mut filled = BlockHeader { kind: self.kind as u32, entries: self.entries, payload_bytes, crc: 0 };
        filled.crc = filled.expected_crc(self.blocks_before, payload);
        head.copy_from_slice(&filled.to_bytes());
        self.out.write_all(&self.block)?;
        self.bytes_before += self.block.len() as u64;
        self.blocks_before += 1;
        self.entries_before += u64::from(self.entries);
        self.block.truncate(BLOCK_HEADER_BYTES);
        self.entries = 0;
        Ok(())
    }
}

/// Reads blocks, holding one of them at a time.
pub(super) struct BlockReader<R> {
    input: R,
    at_byte: u64,
    payload: Vec<u8>,
    blocks_before: u64,
    entries_before: u64,
}

/// A block that is what was written.
pub(super) struct Block<'a> {
    pub kind: BlockKind,
    pub entries: u32,
    pub payload: &'a [u8],
    pub at_byte: u64,
}

impl<R: Read> BlockReader<R> {
    /// `input` is a file from its byte `at_byte` on.
    pub(super) fn new(input: R, at_byte: u64) -> Self {
        Self { input, at_byte, payload: Vec::new(), blocks_before: 0, entries_before: 0 }
    }

    /// The next block; none after the last one, if nothing follows it.
    pub(super) fn next(&mut self) -> Result<Option<Block<'_>>, SnapshotProblem> {
        let at_byte = self.at_byte;
        let damaged = |what| SnapshotProblem::Damaged { at_byte, what };
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.read(&mut head)?;
        let head = BlockHeader::from_bytes(&head);
        // Before anything is made that large.
        let payload_bytes = head.payload_bytes as usize;
        if payload_bytes > BLOCK_PAYLOAD_BYTES_MAX {
            return Err(damaged("a block is larger than blocks are"));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(payload_bytes, 0);
        self.read(&mut payload)?;
        self.payload = payload;
        if head.crc != head.expected_crc(self.blocks_before, &self.payload) {
            return Err(damaged("a block's checksum does not match"));
        }
        let kind = BlockKind::from_code(head.kind).ok_or(damaged("there is no such kind of block"))?;
        if kind == BlockKind::End {
            return self.check_end(at_byte).map(|()| None);
        }
        self.blocks_before += 1;
        self.entries_before += u64::from(head.entries);
        Ok(Some(Block { kind, entries: head.entries, payload: &self.payload, at_byte }))
    }

    fn check_end(&mut self, at_byte: u64) -> Result<(), SnapshotProblem> {
        let damaged = |what| SnapshotProblem::Damaged { at_byte, what };
        let mut fields = ByteReader(&self.payload);
        let totals = [fields.u64(), fields.u64()];
        if totals != [Some(self.entries_before), Some(self.blocks_before)] || !fields.0.is_empty() {
            return Err(damaged("the last block counts other blocks and entries than there are"));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => {
                Err(SnapshotProblem::Damaged { at_byte: self.at_byte, what: "something follows the last block" })
            }
            Err(error) => Err(SnapshotProblem::io("read")(error)),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotProblem> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.input.read(rest) {
                Ok(0) => return Err(SnapshotProblem::Truncated { at_byte: self.at_byte }),
                Ok(count) => {
                    rest = &mut rest[count..];
                    self.at_byte += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SnapshotProblem::io("read")(error)),
            }
        }
        Ok(())
    }
}
