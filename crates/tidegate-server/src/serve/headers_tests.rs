//! Which headers the answers of an engine get.

use std::sync::Arc;

use tidegate::rules::{self, Descriptor, Entry, Request};
use tidegate::{Engine, ManualClock, MemoryStore, Timestamp};

use super::*;

const RULES: &str = r#"
domain: api
rules:
  - { name: login, key: [ip], limits: [ { name: per-ip, limit: 2, per: 60s, algorithm: fixed_window } ] }
  - { name: 'say "é"', key: [ip], limit: 5 per 100ms }
  - { name: dry, key: [ip], limit: 1 per hour, action: shadow }
  - { name: none, match: { user: mallory }, limit: { limit: 0, per: 1s, algorithm: fixed_window } }
---
domain: hidden
rules:
  - { name: dry, key: [user], limit: 1 per hour, action: shadow }
  - { name: banned, match: { bot: { exists: true } }, key: [user], limit: 1 per hour, action: shadow_ban }
  - { name: shown, match: { ip: { exists: true } }, key: [ip], limit: 9 per minute }
  - { name: jobs, match: { job: { exists: true } }, limit: { limit: 3, algorithm: concurrency, ttl: 90s } }
"#;

fn headers_of(engine: &Engine<ManualClock>, entries: &[Entry<'_>]) -> Vec<String> {
    headers(engine, Request { domain: "api", descriptors: &[Descriptor::new(entries, 1)] })
}

fn headers(engine: &Engine<ManualClock>, request: Request<'_>) -> Vec<String> {
    headers_in(engine, request, HeaderDialect::Draft)
}

fn headers_in(engine: &Engine<ManualClock>, request: Request<'_>, which: HeaderDialect) -> Vec<String> {
    let answer = engine.check(&request).unwrap();
    let mut headers = Vec::new();
    for_each_header(&answer, which, |header, value| headers.push(format!("{}: {value}", header.name())));
    headers
}

fn engine() -> Engine<ManualClock> {
    let clock = ManualClock::at(Timestamp::from_nanos(120_000_000_000 + 29_500_000_000));
    let files = RULES.split("---\n").map(|file| rules::parse("rules.yaml", file).unwrap().domains);
    let domains = files.flatten().collect();
    Engine::with_store(domains, Arc::new(MemoryStore::bounded(1 << 24)), clock).unwrap()
}

#[test]
fn allowed_and_denied() {
    let engine = engine();
    let entries = [Entry { key: "ip", value: "192.0.2.1" }];
    let policies = r#"ratelimit-policy: "login/per-ip";q=2;w=60, "say \"%C3%A9\"/1";q=5"#;
    assert_eq!(
        headers_of(&engine, &entries),
        [
            "x-ratelimit-limit: 2",
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 31",
            policies,
            r#"ratelimit: "login/per-ip";r=1;t=31, "say \"%C3%A9\"/1";r=4;t=1"#,
        ]
    );
    // The dry run is over its limit and decides, but the client sees only the other limits.
    assert_eq!(headers_of(&engine, &entries)[3], policies);
    let denied = headers_of(&engine, &entries);
    assert_eq!(denied[..2], ["retry-after: 31", "x-ratelimit-retry-after: 31"]);
    assert_eq!(denied[3..6], ["x-ratelimit-remaining: 0", "x-ratelimit-reset: 31", policies]);
}

#[test]
fn other_dialects() {
    let engine = engine();
    let mallory = [Entry { key: "user", value: "mallory" }, Entry { key: "ip", value: "192.0.2.1" }];
    let entries = [Entry { key: "ip", value: "192.0.2.1" }];
    let check = |entries: &[Entry<'_>], which| {
        headers_in(&engine, Request { domain: "api", descriptors: &[Descriptor::new(entries, 1)] }, which)
    };
    // As in Envoy's documentation: `10, 10;w=1;name="per-ip", 1000;w=3600`.
    let draft_03 = [
        r#"x-ratelimit-limit: 2, 2;w=60;name="login/per-ip", 5;name="say \"%C3%A9\"/1""#,
        "x-ratelimit-remaining: 1",
        "x-ratelimit-reset: 31",
    ];
    assert_eq!(check(&entries, HeaderDialect::Draft03), draft_03);
    let plain = ["x-ratelimit-limit: 2", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 31"];
    assert_eq!(check(&entries, HeaderDialect::XRateLimit), plain);
    assert_eq!(check(&entries, HeaderDialect::None), ["retry-after: 31"], "it is denied");
    assert_eq!(
        check(&entries, HeaderDialect::XRateLimit)[..2],
        ["retry-after: 31", "x-ratelimit-retry-after: 31"]
    );
    assert_eq!(check(&entries, HeaderDialect::Draft03)[0], "retry-after: 31");
    assert!(check(&mallory, HeaderDialect::None).is_empty(), "it is never admitted");
}

#[test]
fn dry_runs_and_bans_are_hidden() {
    let engine = engine();
    let (user, bot) = (Entry { key: "user", value: "1" }, Entry { key: "bot", value: "" });
    let ip = Entry { key: "ip", value: "::1" };
    let headers_of = |entries: &[Entry<'_>]| {
        headers(&engine, Request { domain: "hidden", descriptors: &[Descriptor::new(entries, 1)] })
    };
    for _ in 0..3 {
        assert!(headers_of(&[user]).is_empty(), "only hidden limits");
    }
    assert_eq!(headers_of(&[user, bot, ip])[..2], ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 8"]);
    let banned = headers_of(&[user, bot, ip]);
    assert_eq!(banned[..2], ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 8"]);
    assert_eq!(banned[3], r#"ratelimit-policy: "shown/1";q=9;w=60"#, "{banned:?}");
}

#[test]
fn a_limit_that_several_descriptors_match_is_listed_once() {
    let engine = engine();
    let (first, second) = ([Entry { key: "ip", value: "::1" }], [Entry { key: "ip", value: "10.0.0.1" }]);
    let job = [Entry { key: "job", value: "" }];
    let descriptors = [Descriptor::new(&job, 1), Descriptor::new(&first, 1), Descriptor::new(&second, 4)];
    let all = headers(&engine, Request { domain: "hidden", descriptors: &descriptors });
    assert_eq!(
        all,
        [
            "x-ratelimit-limit: 3",
            "x-ratelimit-remaining: 2",
            "x-ratelimit-reset: 90",
            r#"ratelimit-policy: "jobs/1";q=3, "shown/1";q=9;w=60"#,
            r#"ratelimit: "jobs/1";r=2;t=90, "shown/1";r=5;t=27"#,
        ]
    );
}

#[test]
fn no_headers_without_limits_and_no_retry_after_for_never() {
    let engine = engine();
    let mallory = headers_of(&engine, &[Entry { key: "user", value: "mallory" }]);
    assert_eq!(mallory[0], "x-ratelimit-limit: 0", "{mallory:?}");
    assert!(mallory[4].starts_with(r#"ratelimit: "none/1";r=0, "#), "{mallory:?}");

    let elsewhere =
        Request { domain: "none", descriptors: &[Descriptor::new(&[Entry { key: "ip", value: "x" }], 1)] };
    for_each_header(&engine.check(&elsewhere).unwrap(), HeaderDialect::Draft, |header, _| {
        panic!("{header:?}")
    });
}
