//! Compares the reader and the writer with prost, also on random bytes.

use bytes::BytesMut;
use proptest::prelude::*;
use prost::Message;

use super::*;

/// A field of each wire type, and a nested message.
#[derive(Clone, PartialEq, Message)]
struct Everything {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(double, tag = "3")]
    double: f64,
    #[prost(message, optional, boxed, tag = "4")]
    inner: Option<Box<Everything>>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    list: Vec<Vec<u8>>,
    #[prost(fixed32, tag = "2000")]
    fixed: u32,
}

fn everything() -> impl Strategy<Value = Everything> {
    let leaf = (any::<u64>(), ".{0,200}", any::<i32>(), prop::collection::vec(any::<Vec<u8>>(), 0..4));
    let leaf = leaf.prop_map(|(number, text, double, list)| Everything {
        number: number >> (number % 64),
        text,
        double: double.into(),
        inner: None,
        list,
        fixed: 0,
    });
    (leaf.clone(), prop::option::of(leaf))
        .prop_map(|(outer, inner)| Everything { inner: inner.map(Box::new), ..outer })
}

fn write(out: &mut Writer<'_>, message: &Everything) {
    out.varint(1, message.number);
    out.text(2, &message.text);
    if message.double != 0.0 {
        out.double_or_zero(3, message.double);
    }
    if let Some(inner) = &message.inner {
        out.message(4, |out| write(out, inner));
    }
    message.list.iter().for_each(|bytes| out.bytes_or_empty(5, bytes));
}

fn read(mut fields: Reader<'_>) -> Result<Everything, WireError> {
    let mut message = Everything::default();
    while let Some(Field { number, value }) = fields.next()? {
        match (number, value) {
            (1, Value::Varint(number)) => message.number = number,
            (2, Value::Bytes { bytes, .. }) => message.text = String::from_utf8_lossy(bytes).into_owned(),
            (3, Value::Fixed64(bytes)) => message.double = f64::from_le_bytes(bytes),
            (4, Value::Bytes { bytes, at }) => {
                message.inner = Some(Box::new(read(Reader::nested(bytes, at))?));
            }
            (5, Value::Bytes { bytes, .. }) => message.list.push(bytes.to_vec()),
            (2000, Value::Fixed32(bytes)) => message.fixed = u32::from_le_bytes(bytes),
            _ => {}
        }
    }
    Ok(message)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn writer_matches_prost(message in everything()) {
        let mut bytes = BytesMut::new();
        write(&mut Writer::new(&mut bytes), &message);
        prop_assert_eq!(&bytes[..], message.encode_to_vec());
    }

    #[test]
    fn reader_reads_prost(message in everything(), fixed in any::<u32>()) {
        let message = Everything { fixed, ..message };
        prop_assert_eq!(read(Reader::new(&message.encode_to_vec())), Ok(message));
    }

    /// Truncates a message or changes one byte. The reader must accept all that prost accepts, and its errors must be
    /// in range.
    #[test]
    fn reader_rejects_what_prost_rejects(
        message in everything(), cut in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = message.encode_to_vec();
        prop_assume!(!bytes.is_empty());
        let at = cut.index(bytes.len());
        compare_with_prost(&bytes[..at])?;
        bytes[at] = byte;
        compare_with_prost(&bytes)?;
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        compare_with_prost(&bytes)?;
    }
}

/// What prost accepts, the reader must accept. Prost rejects more: wrong types of known fields, invalid UTF-8 and deep
/// nesting.
fn compare_with_prost(bytes: &[u8]) -> Result<(), TestCaseError> {
    match (read(Reader::new(bytes)), Everything::decode(bytes)) {
        // Compares only a number, because prost merges repeated messages.
        (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours.number, theirs.number),
        (Err(error), Ok(_)) => prop_assert!(false, "{}, but prost accepts it", error),
        (Err(error), _) => prop_assert!(error.at <= bytes.len()),
        (Ok(_), Err(_)) => {}
    }
    Ok(())
}

#[test]
fn groups_are_skipped_and_invalid_tags_rejected() {
    let read_all = |bytes: &[u8]| read(Reader::new(bytes));
    // Group 7 with a varint and group 8 inside, then field 1.
    let grouped = [0x3b, 0x08, 0x05, 0x43, 0x44, 0x3c, 0x08, 0x2a];
    assert_eq!(read_all(&grouped).unwrap().number, 42);
    let deep = [vec![0x3b; 33], vec![0x3c; 33]].concat();
    for (bytes, what) in [
        (&deep[..], "groups nested too deep"),
        (&[0x3b, 0x44], "a group end that matches no group start"),
        (&[0x3c], "a group end without a group start"),
        (&[0x00], "a field number out of range"),
        (&[0x0e], "an unknown wire type"),
        (&[0x08, 0x80], "a truncated number"),
        (
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            "a number of more than 64 bits",
        ),
        (&[0x12, 0x05, 0x61], "a length past the end"),
        (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "a length past the end"),
        (&[0x19, 0x00], "a truncated number"),
    ] {
        assert_eq!(read_all(bytes).unwrap_err().what, what, "{bytes:x?}");
    }
}
