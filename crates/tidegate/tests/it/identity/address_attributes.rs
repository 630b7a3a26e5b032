//! `ip` and Envoy's names of addresses, in rules.

use tidegate::Engine;
use tidegate::rules::{self, Descriptor, Entry, Request};

/// For each request whether it passes.
fn passes(file: &str, requests: &[(&str, &str)]) -> Vec<bool> {
    let engine = Engine::new(rules::parse("rules.yaml", file).expect("rules").domains).expect("an engine");
    let decide = |(key, value): &(&str, &str)| {
        let entries = [Entry { key, value }];
        let request = Request { domain: "d", descriptors: &[Descriptor::new(&entries, 1)] };
        engine.check(&request).expect("an answer").kind.passes()
    };
    requests.iter().map(decide).collect()
}

#[test]
fn blocks_match_addresses_of_every_name() {
    for name in ["ip", "remote_address", "masked_remote_address"] {
        let file = format!(
            "domain: d\nrules: [ {{ name: r, match: {{ {name}: [ 10.0.0.0/8, \"2001:db8::/32\" ] }}, limit: deny }} ]"
        );
        let requests = [
            (name, "10.1.2.3"),
            (name, "::ffff:10.1.2.3"),
            (name, "2001:db8::7"),
            (name, "11.0.0.1"),
            (name, "x"),
        ];
        assert_eq!(passes(&file, &requests), [false, false, false, true, true], "{name}");
    }
}

#[test]
fn masked_addresses_are_blocks() {
    let file = "domain: d\nrules: [ { name: r, match: { masked_remote_address: 10.1.0.0/16 }, key: [masked_remote_address], limit: 1 per minute } ]";
    let name = "masked_remote_address";
    let requests =
        [(name, "10.1.0.0/16"), (name, "10.1.0.0/16"), (name, "10.1.2.0/24"), (name, "10.2.0.0/16")];
    assert_eq!(passes(file, &requests), [true, false, true, true]);
    // `ip` takes no block.
    let file = "domain: d\nrules: [ { name: r, match: { ip: 10.1.0.0/16 }, limit: deny } ]";
    assert_eq!(passes(file, &[("ip", "10.1.0.0/16"), ("ip", "10.1.0.0")]), [true, false]);
}

#[test]
fn ipv6_clients_are_grouped_by_several_prefixes() {
    for name in ["ip", "remote_address"] {
        let file = format!(
            "domain: d\nrules:\n  - name: r\n    limits:\n      - {{ key: [{name}], limit: 2 per minute }}\n      - {{ key: [{name}/56], limit: 3 per minute }}\n      - {{ key: [{name}/48], limit: 4 per minute }}\n"
        );
        let requests = [
            // The third of one /64 is denied, and so is the fourth of one /56 and the fifth of one /48.
            (name, "2001:db8:0:100::1"),
            (name, "2001:db8:0:100::2"),
            (name, "2001:db8:0:100::3"),
            (name, "2001:db8:0:101::1"),
            (name, "2001:db8:0:102::1"),
            (name, "2001:db8:0:200::1"),
            (name, "2001:db8:0:300::1"),
            (name, "2001:db8:1::1"),
        ];
        let expected = [true, true, false, true, false, true, false, true];
        assert_eq!(passes(&file, &requests), expected, "{name}");
    }
}

#[test]
fn files_for_envoy_count_addresses_as_text() {
    let file = "domain: d\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 1 }\n";
    let requests = ["2001:db8::1", "2001:db8::2", "2001:db8::1", "::ffff:1.1.1.1", "1.1.1.1"];
    let requests = requests.map(|address| ("remote_address", address));
    assert_eq!(passes(file, &requests), [true, true, false, true, true]);
    // Converted, they count the same.
    let converted = rules::envoy::convert("rules.yaml", file).expect("rules").text;
    assert_eq!(passes(&converted, &requests), [true, true, false, true, true], "{converted}");
}
