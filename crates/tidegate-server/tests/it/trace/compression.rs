//! Compressed traces, from files and from standard input.

use std::path::{Path, PathBuf};

use super::runner::{Run, tidegate, trace_args};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).expect("the file is there")
}

fn from_file(name: &str) -> Run {
    let path = data(name);
    let path = path.to_str().expect("the path is UTF-8");
    tidegate(&trace_args(&["2/s burst 3"], &["--decisions", path]), "")
}

fn from_stdin(bytes: Vec<u8>) -> Run {
    tidegate(&trace_args(&["2/s burst 3"], &["--decisions", "-"]), bytes)
}

/// `parts.*` hold the same text in several parts: gzip members; xz streams with padding between them, several
/// blocks and different checks; zstd frames with and without checksums, and skippable frames.
#[test]
fn formats_are_detected_by_content() {
    let plain = from_file("sample.txt");
    assert_eq!((plain.code, plain.err.as_str(), plain.out.lines().count()), (Some(0), "", 60));
    let compressed =
        ["sample.txt.gz", "sample.txt.xz", "sample.txt.zst", "parts.gz", "parts.xz", "parts.zst"];
    for name in compressed {
        assert_eq!(from_file(name), plain, "{name}");
        assert_eq!(from_stdin(read(name)), plain, "{name} on standard input");
    }
    assert_eq!(from_stdin(read("sample.txt")), plain);
}

#[track_caller]
fn assert_unreadable(bytes: Vec<u8>, what: &str) {
    let run = from_stdin(bytes);
    assert_eq!(run.code, Some(2), "{what}: {run:?}");
    assert!(run.err.starts_with("error: cannot read `<stdin>`"), "{what}: {}", run.err);
    assert!(run.err.contains("(hint: the input may be damaged or cut short"), "{what}: {}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{what}: {}", run.err);
}

#[test]
fn truncated_input_is_an_error() {
    for name in ["sample.txt.gz", "sample.txt.xz", "sample.txt.zst", "parts.xz", "parts.zst"] {
        let whole = read(name);
        for length in [8, whole.len() / 2, whole.len() - 1] {
            assert_unreadable(whole[..length].to_vec(), &format!("{length} bytes of {name}"));
        }
    }
}

#[test]
fn checksums_are_verified() {
    // gzip: the checksum and the length are the last eight bytes. zstd: the last four.
    let mut gzip = read("sample.txt.gz");
    let at = gzip.len() - 8;
    gzip[at] ^= 1;
    assert_unreadable(gzip, "gzip");

    let mut zstd = read("sample.txt.zst");
    let at = zstd.len() - 1;
    zstd[at] ^= 1;
    assert_unreadable(zstd, "zstd");

    // xz: right before the index. The footer, the last twelve bytes, holds the size of the index as size / 4 - 1.
    let mut xz = read("sample.txt.xz");
    let size = xz.len() - 8;
    let stored = u32::from_le_bytes(xz[size..size + 4].try_into().expect("four bytes"));
    let index_bytes = (stored as usize + 1) * 4;
    let at = xz.len() - 12 - index_bytes - 1;
    xz[at] ^= 1;
    assert_unreadable(xz, "xz");
}

#[test]
fn trailing_data_is_an_error() {
    for name in ["sample.txt.gz", "sample.txt.xz", "sample.txt.zst"] {
        assert_unreadable([read(name), b"and more".to_vec()].concat(), name);
    }
}

#[test]
fn unsupported_formats_are_named() {
    let run = from_stdin(b"BZh91AY&SY".to_vec());
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.err,
        "error: `<stdin>` is compressed with bzip2, which is not supported (hint: use xz, gzip or zstd, or \
         decompress it into a pipe and give - as the file)\n"
    );
}
