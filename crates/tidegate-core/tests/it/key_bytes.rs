//! The bytes of keys. Counters in Redis and in snapshots are found by them, so this table must never change.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use allocation_counter::measure;
use proptest::prelude::*;
use tidegate_core::{IntoKey, IpKey};

fn hex(key: impl IntoKey) -> String {
    key.key_bytes().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(key: impl IntoKey) -> String {
    String::from_utf8(key.key_bytes().as_ref().to_vec()).expect("text")
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().expect(text)
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect(text)
}

#[test]
fn text_and_bytes_are_themselves() {
    for key in ["", "user:42", "日本", "with\0zero"] {
        let bytes = key.as_bytes();
        assert_eq!(key.key_bytes(), bytes);
        assert_eq!(key.to_owned().key_bytes(), bytes);
        assert_eq!((&&key.to_owned()).key_bytes(), bytes);
        assert_eq!(bytes.key_bytes(), bytes);
        assert_eq!(bytes.to_vec().key_bytes(), bytes);
        assert_eq!(Box::<str>::from(key).key_bytes(), bytes);
        assert_eq!(Box::<[u8]>::from(bytes).key_bytes(), bytes);
        assert_eq!(Rc::<str>::from(key).key_bytes(), bytes);
        assert_eq!(Arc::new(key.to_owned()).key_bytes(), bytes);
        assert_eq!(Cow::Borrowed(key).key_bytes(), bytes);
        assert_eq!(Cow::<[u8]>::Owned(bytes.to_vec()).key_bytes(), bytes);
    }
    assert_eq!(hex([0x00, 0xff, 0x7f]), "00ff7f");
    let by_reference = &[1_u8, 2];
    assert_eq!(hex(by_reference), "0102");
    assert_eq!(hex(b"key"), "6b6579");
}

#[test]
fn integers_are_their_decimal_digits() {
    assert_eq!(hex(42_u64), "3432");
    assert_eq!(hex(-42_i64), "2d3432");
    assert_eq!(text(0_u8), "0");
    assert_eq!(text(u8::MAX), "255");
    assert_eq!(text(u16::MAX), "65535");
    assert_eq!(text(u32::MAX), "4294967295");
    assert_eq!(text(u64::MAX), "18446744073709551615");
    assert_eq!(text(u128::MAX), "340282366920938463463374607431768211455");
    assert_eq!(text(i8::MIN), "-128");
    assert_eq!(text(i16::MIN), "-32768");
    assert_eq!(text(i32::MIN), "-2147483648");
    assert_eq!(text(i64::MIN), "-9223372036854775808");
    assert_eq!(text(i128::MIN), "-170141183460469231731687303715884105728");
    assert_eq!(text(usize::MAX), usize::MAX.to_string());
    assert_eq!(text(isize::MIN), isize::MIN.to_string());
    // The same number is the same key, whatever its type.
    let by_reference = &7_u64;
    let same = [
        text(7_u8),
        text(7_u16),
        text(7_u32),
        text(7_u64),
        text(7_u128),
        text(7_usize),
        text(7_i8),
        text(7_i16),
        text(7_i32),
        text(7_i64),
        text(7_i128),
        text(7_isize),
        text(by_reference),
        text("7"),
    ];
    assert!(same.iter().all(|digits| digits == "7"), "{same:?}");
}

#[test]
fn addresses_are_their_octets() {
    assert_eq!(hex(v4("192.0.2.1")), "c0000201");
    assert_eq!(hex(IpAddr::from(v4("192.0.2.1"))), "c0000201");
    assert_eq!(hex(v6("2001:db8::1")), "20010db8000000000000000000000001");
    assert_eq!(hex(IpAddr::from(v6("2001:db8::1"))), "20010db8000000000000000000000001");
    // An IPv4-mapped IPv6 address is IPv4. An IPv4-compatible address is not.
    assert_eq!(hex(v6("::ffff:192.0.2.1")), "c0000201");
    assert_eq!(hex(IpAddr::from(v6("::ffff:192.0.2.1"))), "c0000201");
    assert_eq!(hex(v6("::192.0.2.1")), "000000000000000000000000c0000201");
}

#[test]
fn prefixes_are_the_first_address_and_their_length() {
    let address = v6("2001:db8:1234:5678:9abc:def0:1234:5678");
    for (bits, bytes) in [
        (0, "0000000000000000000000000000000000"),
        (1, "0000000000000000000000000000000001"),
        (48, "20010db812340000000000000000000030"),
        (52, "20010db812345000000000000000000034"),
        (56, "20010db812345600000000000000000038"),
        (64, "20010db812345678000000000000000040"),
        (127, "20010db8123456789abcdef0123456787f"),
        (128, "20010db8123456789abcdef012345678"),
        (255, "20010db8123456789abcdef012345678"),
    ] {
        assert_eq!(hex(IpKey::new(address).v6_prefix(bits)), bytes, "/{bits}");
        assert_eq!(hex(IpKey::new(v4("192.0.2.1")).v6_prefix(bits)), "c0000201", "/{bits}");
        assert_eq!(hex(IpKey::new(v6("::ffff:192.0.2.1")).v6_prefix(bits)), "c0000201", "/{bits}");
    }
    assert_eq!(hex(IpKey::new(address)), "20010db812345678000000000000000040");
    assert_eq!(hex(IpKey::new(IpAddr::from(address))), "20010db812345678000000000000000040");
}

#[test]
fn tuples_are_their_parts_after_their_lengths() {
    assert_eq!(hex(("ab", "c")), "02616201 63".replace(' ', ""));
    assert_eq!(hex(("a", "bc")), "0161 026263".replace(' ', ""));
    assert_eq!(hex(("", "")), "0000");
    assert_eq!(hex(("", "", "")), "000000");
    assert_eq!(hex((42, "x")), "023432 0178".replace(' ', ""));
    assert_eq!(hex((v4("192.0.2.1"), 7_u64)), "04c0000201 0137".replace(' ', ""));
    assert_eq!(
        hex((1, IpKey::new(v6("2001:db8::1")))),
        "0131 1120010db8000000000000000000000000 40".replace(' ', "")
    );
    assert_eq!(hex(("a", "b", "c")), "016101620163");
    assert_eq!(hex(("a", "b", "c", "d")), "0161016201630164");
    assert_eq!(hex(("a", "b", "c", "d", "e")), "01610162016301640165");
    assert_eq!(hex(("a", "b", "c", "d", "e", "f")), "016101620163016401650166");
    assert_eq!(hex((("a", "b"), "c")), "0401610162 0163".replace(' ', ""));
    assert_eq!(hex(("a", ("b", "c"))), "0161 0401620163".replace(' ', ""));
    // Lengths of 128 and more take two bytes, of 16,384 and more three.
    for (length, prefix) in [(127, "7f"), (128, "8001"), (300, "ac02"), (16_383, "ff7f"), (16_384, "808001")]
    {
        let long = "x".repeat(length);
        assert_eq!(hex((&long, "")), format!("{prefix}{}00", "78".repeat(length)));
    }
}

#[test]
fn short_keys_allocate_nothing() {
    let address = v6("2001:db8::1");
    let keys = || {
        assert_eq!("user:42".key_bytes().len(), 7);
        assert_eq!(i128::MIN.key_bytes().as_ref().len(), 40);
        assert_eq!(IpKey::new(address).key_bytes().as_ref().len(), 17);
        let key = (u64::MAX, IpKey::new(address), "tenant-7");
        assert_eq!(key.key_bytes().as_ref().len(), 48);
    };
    assert_eq!(measure(keys).count_total, 0);
}

proptest! {
    #[test]
    fn different_tuples_are_different_keys(
        one in any::<(Vec<u8>, Vec<u8>, Vec<u8>)>(),
        other in any::<(Vec<u8>, Vec<u8>, Vec<u8>)>(),
    ) {
        prop_assert_eq!(one.key_bytes() == other.key_bytes(), one == other);
        let two = (&one.0, &one.1);
        prop_assert_ne!(two.key_bytes(), one.key_bytes());
    }

    /// Moving bytes from one part to another always makes another key.
    #[test]
    fn parts_do_not_run_into_each_other(whole in "[a-c\u{0}\u{1}\u{2}]{0,6}", cuts in any::<[prop::sample::Index; 2]>()) {
        let [one, other] = cuts.map(|cut| cut.index(whole.len() + 1));
        let (one_key, other_key) = (whole.split_at(one).key_bytes(), whole.split_at(other).key_bytes());
        prop_assert_eq!(one_key == other_key, one == other);
    }

    #[test]
    fn numbers_are_written_as_text(number in any::<i128>(), small in any::<i64>(), positive in any::<u64>()) {
        prop_assert_eq!(text(number), number.to_string());
        prop_assert_eq!(text(small), small.to_string());
        prop_assert_eq!(text(positive), positive.to_string());
    }
}
