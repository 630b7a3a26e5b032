//! `tidegate convert` on files for envoyproxy/ratelimit.

use crate::check::{Directory, assert_success, tidegate};

const ENVOY: &str = "
domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 3 }
  - key: database
    value: users
    rate_limit: { unit: second, requests_per_unit: 500 }
";

#[test]
fn converted_rules_decide_the_same() {
    let directory = Directory::new();
    let envoy = directory.write("envoy/edge.yaml", ENVOY);
    let run = tidegate(&["convert", &envoy], "");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("domain: edge") && run.out.contains("rules:"), "{}", run.out);
    assert_eq!(tidegate(&["convert", "-"], ENVOY).out, run.out);
    let rules = directory.write("rules/edge.yaml", &run.out);
    assert_eq!(tidegate(&["check", &rules], "").code, Some(0));
    let tests = "
tests:
  - name: four from one address
    steps:
      - { descriptors: [ { entries: [ { remote_address: 192.0.2.1 } ] } ], times: 3, expect: allowed }
      - { descriptors: [ { entries: [ { remote_address: 192.0.2.1 } ] } ], expect: denied }
      - { descriptors: [ { entries: [ { remote_address: 192.0.2.2 } ] } ], expect: { remaining: 2 } }
      - { descriptors: [ { entries: [ { database: users } ] } ], expect: { remaining: 499 } }
      - { descriptors: [ { entries: [ { database: orders } ] } ], expect: { decision: allowed, rule: } }
";
    let tests = directory.write("tests/edge.yaml", tests);
    for rules in [&envoy, &rules] {
        let run = tidegate(&["check", rules, "--tests", &tests], "");
        assert_eq!((run.code, run.out.as_str()), (Some(0), "1 passed, 0 failed\n"), "{run:?}");
    }
}

#[test]
fn unsupported_files() {
    let directory = Directory::new();
    let native = directory.write("api.yaml", "domain: api\nrules: [ { name: a, limit: 5 per second } ]\n");
    let run = tidegate(&["convert", &native], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("not a file for envoyproxy/ratelimit"), "{}", run.err);
    let run = tidegate(&["convert", "-"], ENVOY.replace("unit: minute", "unit: minuet"));
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("standard input:5:") && run.err.contains("minute"), "{}", run.err);
}

#[test]
fn unreadable_files() {
    let directory = Directory::new();
    let run = tidegate(&["convert", "/no/such/file"], "");
    let message = "error: cannot read `/no/such/file`: No such file or directory (os error 2) (hint: give a file, or - for standard input)\n";
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(2), "", message));
    for (run, message) in [
        (tidegate(&["convert", directory.path()], ""), "(hint: give a file for envoyproxy/ratelimit)"),
        (tidegate(&["convert", "-"], b"domain: \xff"), "(hint: save it as UTF-8)"),
        (tidegate(&["convert", "-"], vec![b'#'; 20 << 20]), "it has more than 16777216 bytes (hint: "),
    ] {
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{message}");
        assert!(run.err.contains(message), "{message}: {}", run.err);
    }
    let run = tidegate(&["convert", "-"], "");
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("the file is empty"), "{}", run.err);
    assert_success(&tidegate(&["convert", "--help"], ""));
}
