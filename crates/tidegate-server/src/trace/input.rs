//! Opens a trace: a file or standard input, plain or compressed.
//!
//! The first bytes show the compression, so a pipe or a file without an extension works too.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::error::TraceError;
use super::progress::Progress;
use super::reader::TraceReader;
use super::zstd::ZstdReader;

/// The size of one read from the input.
const INPUT_BUFFER_BYTES: usize = 64 << 10;
/// The size of one read of decompressed bytes.
const LINES_BUFFER_BYTES: usize = 256 << 10;
/// The most memory that an xz block may make the decoder reserve. The highest preset of `xz` needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 1 << 20;
/// The longest signature of a compression format.
const SIGNATURE_BYTES_MAX: usize = 6;

/// An open trace.
pub type TraceInput = TraceReader<BufReader<Box<dyn Read>>>;

/// Opens `path`; `-` is standard input.
pub fn open(path: &Path, progress: &Progress) -> Result<TraceInput, TraceError> {
    let (name, source): (String, Box<dyn Read>) = if path.as_os_str() == "-" {
        ("<stdin>".to_owned(), Box::new(io::stdin().lock()))
    } else {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| TraceError::Open { name: name.clone(), error })?;
        (name, Box::new(progress.track(file)))
    };
    let source = decompress(&name, source)?;
    Ok(TraceReader::new(name, BufReader::with_capacity(LINES_BUFFER_BYTES, source)))
}

fn decompress(name: &str, mut source: Box<dyn Read>) -> Result<Box<dyn Read>, TraceError> {
    let mut start = Vec::with_capacity(SIGNATURE_BYTES_MAX);
    let read = source.by_ref().take(SIGNATURE_BYTES_MAX as u64).read_to_end(&mut start);
    read.map_err(|error| TraceError::Read { name: name.to_owned(), lines_read: 0, error })?;
    let format = Compression::detect(&start);
    let source = io::Cursor::new(start).chain(source);
    let buffered = |source| BufReader::with_capacity(INPUT_BUFFER_BYTES, source);
    Ok(match format {
        Compression::Plain => Box::new(source),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(source))),
        Compression::Xz => Box::new(XzReader::new_mem_limit(buffered(source), true, XZ_MEMORY_KIB_MAX)),
        Compression::Zstd => Box::new(ZstdReader::new(buffered(source))),
        Compression::Unsupported(format) => return Err(TraceError::Format { name: name.to_owned(), format }),
    })
}

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Plain,
    Gzip,
    Xz,
    Zstd,
    /// Recognized only to name it in the error, instead of reporting a bad timestamp.
    Unsupported(&'static str),
}

impl Compression {
    /// Detects the compression by the first bytes. No line of a trace starts with any of these.
    fn detect(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A file may start with a skippable zstd frame.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', ..] => Self::Unsupported("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Unsupported("lz4"),
            [b'L', b'Z', b'I', b'P', ..] => Self::Unsupported("lzip"),
            [b'P', b'K', 0x03, 0x04, ..] => Self::Unsupported("zip"),
            _ => Self::Plain,
        }
    }
}
