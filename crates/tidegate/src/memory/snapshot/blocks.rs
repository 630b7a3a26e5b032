//! Blocks: entries are collected up to a maximum size, written with a checksum, and checked when they are read.

use std::io::{self, Read, Write};

use super::error::SnapshotProblem;
use super::format::{BLOCK_HEADER_BYTES, BLOCK_PAYLOAD_BYTES_MAX, BlockHeader, BlockKind, ByteReader};

/// Collects entries, and writes a block whenever one is full.
pub(super) struct BlockWriter<W> {
    out: W,
    kind: BlockKind,
    /// Space for the block header, then the payload, so that a block is one write.
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

    /// Begins an entry of this kind and size, which the caller appends to the payload. An entry is never larger than a
    /// payload can be.
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

    /// Writes the rest and the last block. Returns the size of all blocks.
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
        let (header, payload) = self.block.split_at_mut(BLOCK_HEADER_BYTES);
        #[allow(clippy::cast_possible_truncation, reason = "at most BLOCK_PAYLOAD_BYTES_MAX")]
        let payload_bytes = payload.len() as u32;
        let mut block_header =
            BlockHeader { kind: self.kind as u32, entries: self.entries, payload_bytes, crc: 0 };
        block_header.crc = block_header.expected_crc(self.blocks_before, payload);
        header.copy_from_slice(&block_header.to_bytes());
        self.out.write_all(&self.block)?;
        self.bytes_before += self.block.len() as u64;
        self.blocks_before += 1;
        self.entries_before += u64::from(self.entries);
        self.block.truncate(BLOCK_HEADER_BYTES);
        self.entries = 0;
        Ok(())
    }
}

/// Reads blocks, one at a time.
pub(super) struct BlockReader<R> {
    input: R,
    at_byte: u64,
    payload: Vec<u8>,
    blocks_before: u64,
    entries_before: u64,
}

/// A block whose checksum matches.
pub(super) struct Block<'a> {
    pub kind: BlockKind,
    pub entries: u32,
    pub payload: &'a [u8],
    pub at_byte: u64,
}

impl<R: Read> BlockReader<R> {
    /// `input` is a file, starting at its byte `at_byte`.
    pub(super) fn new(input: R, at_byte: u64) -> Self {
        Self { input, at_byte, payload: Vec::new(), blocks_before: 0, entries_before: 0 }
    }

    /// The next block. None after the last one, if nothing follows it.
    pub(super) fn next(&mut self) -> Result<Option<Block<'_>>, SnapshotProblem> {
        let at_byte = self.at_byte;
        let damaged = |what| SnapshotProblem::Damaged { at_byte, what };
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.read(&mut header)?;
        let header = BlockHeader::from_bytes(&header);
        // Check the size before allocating.
        let payload_bytes = header.payload_bytes as usize;
        if payload_bytes > BLOCK_PAYLOAD_BYTES_MAX {
            return Err(damaged("a block is too large"));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(payload_bytes, 0);
        self.read(&mut payload)?;
        self.payload = payload;
        if header.crc != header.expected_crc(self.blocks_before, &self.payload) {
            return Err(damaged("a block's checksum does not match"));
        }
        let kind = BlockKind::from_code(header.kind).ok_or(damaged("unknown kind of block"))?;
        if kind == BlockKind::End {
            return self.check_end(at_byte).map(|()| None);
        }
        self.blocks_before += 1;
        self.entries_before += u64::from(header.entries);
        Ok(Some(Block { kind, entries: header.entries, payload: &self.payload, at_byte }))
    }

    fn check_end(&mut self, at_byte: u64) -> Result<(), SnapshotProblem> {
        let damaged = |what| SnapshotProblem::Damaged { at_byte, what };
        let mut fields = ByteReader(&self.payload);
        let totals = [fields.u64(), fields.u64()];
        if totals != [Some(self.entries_before), Some(self.blocks_before)] || !fields.0.is_empty() {
            return Err(damaged("the totals in the last block do not match"));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(SnapshotProblem::Damaged {
                at_byte: self.at_byte,
                what: "extra data follows the last block",
            }),
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
