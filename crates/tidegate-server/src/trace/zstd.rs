//! Reads all frames of a zstd file and verifies their checksums.
//!
//! The decoder handles one frame. Files made by `cat` or by parallel compressors have many, some of them skippable.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Decompresses zstd.
pub struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    state: FrameState,
    /// Decompressed bytes of the frame so far.
    frame_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameState {
    BetweenFrames,
    InFrame,
}

impl<R: BufRead> ZstdReader<R> {
    pub fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), state: FrameState::BetweenFrames, frame_bytes: 0 }
    }

    /// Starts the next frame, or skips it if it is a skippable one.
    fn start_frame(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.source) {
            Ok(()) => {
                (self.state, self.frame_bytes) = (FrameState::InFrame, 0);
                Ok(())
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                match io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? {
                    skipped if skipped == length => Ok(()),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
            Err(error) => Err(invalid(error)),
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.state = FrameState::BetweenFrames;
        match self.decoder.get_checksum_from_data() {
            Some(stated) if Some(stated) != self.decoder.get_calculated_checksum() => {
                Err(invalid("the checksum of a zstd frame does not match its content"))
            }
            // Checksum and size are optional in a frame. The decoder reports a missing size as 0.
            _ if ![0, self.frame_bytes].contains(&self.decoder.content_size()) => {
                Err(invalid("the size of a zstd frame does not match its header"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match self.state {
                FrameState::BetweenFrames if self.source.fill_buf()?.is_empty() => return Ok(0),
                FrameState::BetweenFrames => self.start_frame()?,
                FrameState::InFrame if self.decoder.can_collect() > 0 => {
                    let bytes = self.decoder.read(buffer)?;
                    self.frame_bytes += bytes as u64;
                    return Ok(bytes);
                }
                FrameState::InFrame if self.decoder.is_finished() => self.end_frame()?,
                FrameState::InFrame => {
                    let strategy = BlockDecodingStrategy::UptoBlocks(1);
                    self.decoder.decode_blocks(&mut self.source, strategy).map_err(invalid)?;
                }
            }
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
