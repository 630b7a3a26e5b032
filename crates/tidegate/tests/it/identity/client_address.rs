//! The address of the client, compared with a model that reads headers from the left.

use std::net::IpAddr;

use proptest::prelude::*;
use tidegate::identity::{ClientAddress, ForwardedHeader, Net, NetSet};

use ForwardedHeader::{Forwarded, XForwardedFor};

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().expect("an address"))
}

fn find(settings: &ClientAddress, peer: Option<IpAddr>, lines: &[String]) -> Option<IpAddr> {
    settings.find(peer, lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>())
}

fn networks(texts: &[&str]) -> NetSet {
    NetSet::new(texts.iter().map(|text| Net::parse(text).expect("a network"))).expect("a set")
}

#[test]
fn hops_are_counted_from_the_right() {
    let peer = ip("10.0.0.1");
    let lines = ["1.1.1.1, 2.2.2.2".to_owned(), "3.3.3.3".to_owned()];
    for (hops, expected) in [
        (0, "10.0.0.1"),
        (1, "3.3.3.3"),
        (2, "2.2.2.2"),
        (3, "1.1.1.1"),
        (4, "10.0.0.1"),
        (u8::MAX, "10.0.0.1"),
    ] {
        let settings = ClientAddress::trusted_hops(XForwardedFor, hops);
        assert_eq!(find(&settings, peer, &lines), ip(expected), "{hops} hops");
    }
    let two = ClientAddress::trusted_hops(XForwardedFor, 2);
    // Over a Unix socket the peer has no address.
    assert_eq!(find(&two, None, &lines[1..]), None);
    assert_eq!(find(&two, None, &lines), ip("2.2.2.2"));
    // An entry that is no address counts, and is not replaced by what the client wrote.
    let hidden = ["6.6.6.6, unknown, 3.3.3.3".to_owned()];
    assert_eq!(find(&two, peer, &hidden), peer);
    assert_eq!(find(&two, ip("::ffff:10.0.0.1"), &hidden), peer);
}

#[test]
fn only_one_header_is_read() {
    assert_eq!(ClientAddress::peer().header_name(), None);
    assert_eq!(ClientAddress::trusted_hops(Forwarded, 0).header_name(), None);
    assert_eq!(ClientAddress::trusted_hops(Forwarded, 1).header_name(), Some("forwarded"));
    let trusted = ClientAddress::trusted_networks(XForwardedFor, networks(&["10.0.0.0/8"]));
    assert_eq!(trusted.header_name(), Some("x-forwarded-for"));
}

#[test]
fn networks_are_walked_from_the_peer_outwards() {
    let settings = ClientAddress::trusted_networks(XForwardedFor, networks(&["10.0.0.0/8", "fd00::/8"]));
    for (peer, line, expected) in [
        // An untrusted peer may write anything.
        (ip("9.9.9.9"), "1.1.1.1", ip("9.9.9.9")),
        (ip("10.0.0.1"), "6.6.6.6, 1.1.1.1, 10.0.0.2", ip("1.1.1.1")),
        (ip("::ffff:10.0.0.1"), "6.6.6.6, 1.1.1.1, fd00::7", ip("1.1.1.1")),
        (ip("10.0.0.1"), "6.6.6.6, unknown, 10.0.0.2", ip("10.0.0.2")),
        (ip("10.0.0.1"), "10.0.0.3, 10.0.0.2", ip("10.0.0.3")),
        (None, "6.6.6.6, 1.1.1.1", ip("1.1.1.1")),
        (None, "unknown", None),
    ] {
        assert_eq!(find(&settings, peer, &[line.to_owned()]), expected, "{peer:?} {line}");
    }
}

/// One entry as text, and the address it means.
fn entry() -> impl Strategy<Value = (String, Option<IpAddr>)> {
    let address = prop_oneof![
        (0_u8..4).prop_map(|host| IpAddr::from([10, 0, 0, host])),
        (0_u8..4).prop_map(|host| IpAddr::from([198, 51, 100, host])),
        (0_u16..4).prop_map(|host| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host])),
    ];
    let written = (address, 0..4).prop_map(|(address, spelling)| {
        let text = match (address, spelling) {
            (IpAddr::V4(address), 1) => format!("{address}:4711"),
            (IpAddr::V6(address), 1) => format!("[{address}]:4711"),
            (IpAddr::V4(address), 2) => format!("::ffff:{address}"),
            (IpAddr::V6(address), 2) => format!("[{address}]"),
            (address, 3) => format!("  {address}\t"),
            (address, _) => address.to_string(),
        };
        (text, Some(address))
    });
    let none = prop_oneof![Just("unknown"), Just("_hidden"), Just(""), Just("10.0.0"), Just("1.1.1.1/8")];
    prop_oneof![4 => written, 1 => none.prop_map(|text| (text.to_owned(), None))]
}

/// Lines of entries.
fn lines() -> impl Strategy<Value = Vec<Vec<(String, Option<IpAddr>)>>> {
    prop::collection::vec(prop::collection::vec(entry(), 1..4), 0..4)
}

/// The plainest way: all entries in a list.
fn model_of_hops(peer: Option<IpAddr>, entries: &[Option<IpAddr>], hops: usize) -> Option<IpAddr> {
    if hops == 0 || entries.len() < hops { peer } else { entries[entries.len() - hops].or(peer) }
}

/// The chain from the client to the peer, from which trusted proxies are taken off.
fn model_of_networks(peer: Option<IpAddr>, entries: &[Option<IpAddr>]) -> Option<IpAddr> {
    let mut chain = entries.to_vec();
    let mut client = peer;
    while client.is_none_or(|address| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10)) {
        match chain.pop() {
            Some(Some(address)) => client = Some(address),
            _ => break,
        }
    }
    client
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(500))]

    #[test]
    fn addresses_are_those_of_the_model(lines in lines(), peer in prop::option::of(entry()), hops in 0_u8..6) {
        let peer = peer.and_then(|(_, address)| address);
        let entries: Vec<_> = lines.iter().flatten().map(|(_, address)| *address).collect();
        let list = |format: fn(&str) -> String| -> Vec<String> {
            let line = |line: &Vec<(String, _)>| line.iter().map(|(text, _)| format(text)).collect::<Vec<_>>().join(",");
            lines.iter().map(line).collect()
        };
        let plain = list(str::to_owned);
        let forwarded = list(|text| format!(" proto=http;For=\"{}\";by=_proxy", text.trim()));
        for (header, texts) in [(XForwardedFor, &plain), (Forwarded, &forwarded)] {
            let settings = ClientAddress::trusted_hops(header, hops);
            prop_assert_eq!(find(&settings, peer, texts), model_of_hops(peer, &entries, hops.into()), "{:?}", texts);
            let settings = ClientAddress::trusted_networks(header, networks(&["10.0.0.0/8"]));
            prop_assert_eq!(find(&settings, peer, texts), model_of_networks(peer, &entries), "{:?}", texts);
        }
    }

    /// Whatever a client writes, the entries that proxies append decide.
    #[test]
    fn clients_cannot_choose_their_address(
        forged in prop::collection::vec("[ -~]{0,40}", 0..3),
        is_appended_to_line in any::<bool>(),
        is_forwarded in any::<bool>(),
    ) {
        let (header, appended) = match is_forwarded {
            true => (Forwarded, "for=\"198.51.100.7:80\""),
            false => (XForwardedFor, "198.51.100.7"),
        };
        let mut lines = forged;
        match lines.last_mut().filter(|_| is_appended_to_line) {
            Some(last) => *last = format!("{last}, {appended}"),
            None => lines.push(appended.to_owned()),
        }
        let client = ip("198.51.100.7");
        let one_hop = ClientAddress::trusted_hops(header, 1);
        prop_assert_eq!(find(&one_hop, ip("10.0.0.1"), &lines), client);
        let trusted = ClientAddress::trusted_networks(header, networks(&["10.0.0.0/8"]));
        prop_assert_eq!(find(&trusted, ip("10.0.0.1"), &lines), client);
    }
}
