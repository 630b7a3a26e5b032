//! Any bytes as a path, as headers with addresses, as a PROXY header and as a token. Nothing panics, a normal path stays as
//! it is, and a client cannot move the entry that a proxy appends.
//!
//! The input is lines: each is a line of a header. The first is also a path, and the whole input the rest.

use std::net::IpAddr;

use tidegate::Timestamp;
use tidegate::identity::jwt::{JwtAlgorithm, JwtSettings, JwtVerifier, KeySet};
use tidegate::identity::{
    ClientAddress, ForwardedHeader, Net, NetSet, PROXY_HEADER_BYTES_MAX, ProxyHeader, VerifyToken as _,
    normal_path,
};

/// Reads the input in every way.
pub fn identity(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    assert_path(lines[0]);
    assert_addresses(&lines);
    assert_proxy_header(bytes);
    assert_token(bytes);
}

fn assert_path(target: &[u8]) {
    let Ok(path) = normal_path(target) else { return };
    assert_eq!(normal_path(path.as_bytes()).as_deref(), Ok(&*path));
    let segments: Vec<&str> = path.split('/').collect();
    let is_normal = |segment: &&str| !matches!(*segment, "" | "." | "..") && !segment.contains(';');
    assert!(path == "/" || path == "*" || segments[1..].iter().all(is_normal), "{path}");
}

fn assert_addresses(lines: &[&[u8]]) {
    let (peer, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
    for (header, entry) in [
        (ForwardedHeader::XForwardedFor, &b"192.0.2.7"[..]),
        (ForwardedHeader::Forwarded, b"for=\"192.0.2.7:80\";proto=https"),
    ] {
        for hops in 0..4 {
            ClientAddress::trusted_hops(header, hops).find(None, lines.iter().copied());
        }
        // The proxy adds a line, or appends to the last one.
        let last = lines[lines.len() - 1];
        let appended = [last, b", ", entry].concat();
        let added = [lines, &[entry]].concat();
        let joined = [&lines[..lines.len() - 1], &[&appended]].concat();
        let networks = NetSet::new(Net::parse("10.0.0.0/8")).expect("a network");
        for settings in
            [ClientAddress::trusted_hops(header, 1), ClientAddress::trusted_networks(header, networks)]
        {
            assert_eq!(settings.find(Some(peer), added.iter().copied()), Some(client));
            assert_eq!(settings.find(Some(peer), joined.iter().copied()), Some(client));
        }
    }
}

/// What is read of a header does not depend on how much of the rest has arrived.
fn assert_proxy_header(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(PROXY_HEADER_BYTES_MAX)];
    if let Ok(Some(header)) = ProxyHeader::read(bytes) {
        assert_eq!(ProxyHeader::read(&bytes[..header.length_bytes]), Ok(Some(header)));
        assert_eq!(ProxyHeader::read(&bytes[..header.length_bytes - 1]), Ok(None));
    }
}

/// A token that the key did not sign is not valid. The input may also be the keys.
fn assert_token(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let verifier = |keys| JwtVerifier::new(JwtSettings::new([JwtAlgorithm::Hs256]), keys).expect("settings");
    let now = Timestamp::from_nanos(0);
    assert!(verifier(KeySet::from_secret(&[7; 32])).verify(text, &["sub"], now).is_err());
    if let Ok(keys) = KeySet::parse(text) {
        assert!(verifier(keys).verify("e30.e30.e30", &[], now).is_err());
    }
}
