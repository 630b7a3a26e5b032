//! Files for envoyproxy/ratelimit: the answers are those of envoyproxy/ratelimit.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::google::protobuf::UInt64Value;
use tidegate::rules::{Counting, LoadOptions};
use tidegate_server::serve::Bounds;
use tidegate_server::serve::rls::Details;

use crate::grpc::server::{Client, OK, OVER_LIMIT, Server, descriptor, request, send};

const SECONDS_PER_YEAR: i64 = 365 * 86_400;

async fn client_of(rules: &str, change: impl FnOnce(&mut LoadOptions)) -> Client {
    let mut options = LoadOptions::default();
    change(&mut options);
    let server = Server::with_options(rules, options, Bounds::default(), Details::Off).await;
    server.client().await
}

fn hits(value: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value }), ..descriptor }
}

fn codes(answer: &RateLimitResponse) -> Vec<i32> {
    answer.statuses.iter().map(|status| status.code).collect()
}

fn remaining(answer: &RateLimitResponse) -> Vec<u32> {
    answer.statuses.iter().map(|status| status.limit_remaining).collect()
}

/// A request asks without hits, and the response is charged with its real cost.
#[tokio::test]
async fn costs_that_are_known_after_the_response_are_enforced() {
    let rules = "
domain: api
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000 }
";
    for (counting, expected) in [(Counting::Upstream, 2), (Counting::UpstreamStop, 2), (Counting::None, 30)] {
        let mut client = client_of(rules, |options| options.counting = counting).await;
        let mut served = 0;
        for _ in 0..30 {
            let asked = send(&mut client, request([hits(0, descriptor(&[("user", "a")]))])).await;
            if asked.overall_code == OK {
                served += 1;
                send(&mut client, request([hits(600, descriptor(&[("user", "a")]))])).await;
            }
        }
        assert_eq!(served, expected, "{counting:?}");
    }
}

const TWO: &str = "
domain: api
descriptors:
  - { key: small, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: large, rate_limit: { unit: year, requests_per_unit: 10 } }
";

#[tokio::test]
async fn what_a_denied_request_counts() {
    let both = || request([descriptor(&[("small", "x")]), descriptor(&[("large", "x")])]);
    for (counting, large) in
        [(Counting::Upstream, [9, 8, 7]), (Counting::UpstreamStop, [9, 9, 9]), (Counting::None, [9, 9, 9])]
    {
        let mut client = client_of(TWO, |options| options.counting = counting).await;
        for (code, large) in [OK, OVER_LIMIT, OVER_LIMIT].into_iter().zip(large) {
            let answer = send(&mut client, both()).await;
            assert_eq!((answer.overall_code, codes(&answer)), (code, vec![code, OK]), "{counting:?}");
            assert_eq!(remaining(&answer), [0, large], "{counting:?}");
        }
        // Whether the small limit counted beyond itself shows without hits.
        let peek = send(&mut client, request([hits(0, descriptor(&[("small", "x")]))])).await;
        let over = if counting == Counting::None { OK } else { OVER_LIMIT };
        assert_eq!(peek.overall_code, over, "{counting:?}");
    }
}

#[tokio::test]
async fn a_request_is_denied_when_all_its_quotas_are_exceeded() {
    let rules = "
domain: api
descriptors:
  - { key: model, value: a, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: model, value: b, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 3 } }
  - { key: user, rate_limit: { unit: year, requests_per_unit: 100 } }
";
    let model = |name| descriptor(&[("model", name)]);
    let mut client = client_of(rules, |_| {}).await;
    let all = || request([model("a"), model("b"), descriptor(&[("user", "x")])]);
    for (overall, expected) in [
        (OK, [OK, OK, OK]),
        (OK, [OVER_LIMIT, OK, OK]),
        (OK, [OVER_LIMIT, OK, OK]),
        (OVER_LIMIT, [OVER_LIMIT, OVER_LIMIT, OK]),
    ] {
        let answer = send(&mut client, all()).await;
        assert_eq!((answer.overall_code, codes(&answer)), (overall, expected.to_vec()));
    }
    // The only quota of a request.
    assert_eq!(send(&mut client, request([model("a")])).await.overall_code, OVER_LIMIT);
    let unrelated = send(&mut client, request([descriptor(&[("user", "x")])])).await;
    assert_eq!((unrelated.overall_code, remaining(&unrelated)), (OK, vec![95]), "every hit was counted");
}

/// Whether quotas deny is known only after the charge, so such a denial is not all-or-nothing. docs/envoy.md says so.
#[tokio::test]
async fn a_denial_by_quotas_counts_even_if_denied_requests_do_not() {
    let rules = "
domain: api
descriptors:
  - { key: model, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: user, rate_limit: { unit: year, requests_per_unit: 10 } }
";
    let mut client = client_of(rules, |options| options.counting = Counting::None).await;
    let both = || request([descriptor(&[("model", "a")]), descriptor(&[("user", "x")])]);
    for (code, left) in [(OK, 9), (OVER_LIMIT, 8), (OVER_LIMIT, 7)] {
        let answer = send(&mut client, both()).await;
        assert_eq!((answer.overall_code, remaining(&answer)[1]), (code, left));
    }
}

fn overridden(entries: &[(&str, &str)], requests_per_unit: u32, unit: Unit) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit: unit as i32 });
    RateLimitDescriptor { limit, ..descriptor(entries) }
}

#[tokio::test]
async fn a_limit_in_the_request_shares_the_counter_of_its_unit() {
    let rules = "
domain: api
descriptors:
  - { key: user, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: file, value: 'a*', share_threshold: true, rate_limit: { unit: year, requests_per_unit: 10 } }
";
    let mut client = client_of(rules, |_| {}).await;
    let user = [("user", "x")];
    assert_eq!(remaining(&send(&mut client, request([descriptor(&user)])).await), [9]);
    let same_unit = send(&mut client, request([overridden(&user, 5, Unit::Year)])).await;
    assert_eq!(remaining(&same_unit), [3], "2 of 5");
    let other_unit = send(&mut client, request([overridden(&user, 5, Unit::Month)])).await;
    assert_eq!(remaining(&other_unit), [4]);
    let configured = send(&mut client, request([descriptor(&user)])).await;
    assert_eq!(remaining(&configured), [7], "3 of 10");
    // It is never in shadow mode or a quota, whatever the file says.
    for entries in [user, [("quota", "x")]] {
        let denied = send(&mut client, request([overridden(&entries, 0, Unit::Year)])).await;
        assert_eq!((denied.overall_code, codes(&denied)), (OVER_LIMIT, vec![OVER_LIMIT]));
    }
    // A counter that several values share is not that of one value.
    assert_eq!(remaining(&send(&mut client, request([descriptor(&[("file", "a1")])])).await), [9]);
    let one = send(&mut client, request([overridden(&[("file", "a1")], 10, Unit::Year)])).await;
    assert_eq!(remaining(&one), [9]);
}

#[tokio::test]
async fn a_counter_that_a_request_hits_twice_is_counted_one_after_the_other() {
    let mut client = client_of(TWO, |_| {}).await;
    let large = || descriptor(&[("large", "x")]);
    let twice = send(&mut client, request([large(), hits(4, large())])).await;
    assert_eq!((codes(&twice), remaining(&twice)), (vec![OK, OK], vec![9, 5]));
    let across = send(&mut client, request([hits(4, large()), hits(4, large())])).await;
    assert_eq!((codes(&across), remaining(&across)), (vec![OK, OVER_LIMIT], vec![1, 0]));
    let over = send(&mut client, request([large(), overridden(&[("large", "x")], 20, Unit::Year)])).await;
    assert_eq!((codes(&over), remaining(&over)), (vec![OVER_LIMIT, OK], vec![0, 5]), "14 and 15 hits");
    // In the order of the request, also if a limit in the request comes before one in the file.
    let own = || overridden(&[("large", "y")], 20, Unit::Year);
    let plain = || descriptor(&[("large", "y")]);
    let mixed = send(&mut client, request([own(), hits(3, plain()), hits(2, own()), plain()])).await;
    assert_eq!((codes(&mixed), remaining(&mixed)), (vec![OK; 4], vec![19, 6, 14, 3]));
}

#[tokio::test]
async fn a_counter_that_a_request_repeats_spares_the_others_only_if_one_descriptor_is_over() {
    let mut client = client_of(TWO, |options| options.counting = Counting::UpstreamStop).await;
    let small = || descriptor(&[("small", "x")]);
    let large = || descriptor(&[("large", "x")]);
    // Neither of the two is over by itself, so all count.
    let both = send(&mut client, request([small(), large(), small()])).await;
    assert_eq!((codes(&both), remaining(&both)), (vec![OK, OK, OVER_LIMIT], vec![0, 9, 0]));
    // Now both are, so the others do not count.
    let over = send(&mut client, request([large(), small(), small()])).await;
    assert_eq!((codes(&over), remaining(&over)), (vec![OK, OVER_LIMIT, OVER_LIMIT], vec![9, 0, 0]));
    // Only the descriptors over their limits count: 1 and 20 hits.
    let one = send(&mut client, request([large(), hits(20, large()), large()])).await;
    assert_eq!((codes(&one), remaining(&one)), (vec![OK, OVER_LIMIT, OVER_LIMIT], vec![9, 0, 0]));
    let own = send(&mut client, request([overridden(&[("large", "x")], 100, Unit::Year)])).await;
    assert_eq!(remaining(&own), [78]);
}

#[tokio::test]
async fn the_reset_is_the_end_of_the_window() {
    let rules = "
domain: api
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: closed, rate_limit: { unit: year, requests_per_unit: 0 } }
";
    let mut client = client_of(rules, |_| {}).await;
    let user = || descriptor(&[("user", "x")]);
    let now = || {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        i64::try_from(now).unwrap()
    };
    // Unused, used, with more hits than the limit, and never allowed.
    for sent in [hits(0, user()), user(), hits(9, user()), descriptor(&[("closed", "x")])] {
        let before = now();
        let answer = send(&mut client, request([sent])).await;
        let seconds = answer.statuses[0].duration_until_reset.unwrap().seconds;
        let expected = |now: i64| SECONDS_PER_YEAR - now % SECONDS_PER_YEAR;
        assert!((expected(now() + 1)..=expected(before)).contains(&seconds), "{seconds}");
    }
}

#[tokio::test]
async fn limits_have_the_names_of_the_file_and_no_others() {
    let rules = r#"
domain: api
descriptors:
  - { key: plain, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: named, rate_limit: { unit: year, requests_per_unit: 2, name: "read/write: größe" } }
  - { key: quoted, rate_limit: { unit: year, requests_per_unit: 2, name: "a \"b\" \\" } }
  - { key: percent, rate_limit: { unit: year, requests_per_unit: 2, name: "a %22b%22 %5C" } }
  - { key: free, rate_limit: { unlimited: true } }
"#;
    let mut client = client_of(rules, |_| {}).await;
    let of = |key| descriptor(&[(key, "x")]);
    let keys = ["plain", "named", "quoted", "percent", "free", "none"];
    let answer = send(&mut client, request(keys.map(of))).await;
    let limits = answer.statuses.iter().map(|status| status.current_limit.as_ref());
    let names: Vec<Option<&str>> = limits.map(|limit| limit.map(|limit| &*limit.name)).collect();
    let expected =
        [Some(""), Some("read/write: größe"), Some("a %22b%22 %5C"), Some("a %2522b%2522 %255C"), None, None];
    assert_eq!(names, expected, "Envoy puts names between quotes in headers");
    assert_eq!(remaining(&answer), [1, 1, 1, 1, u32::MAX, 0], "unlimited is not the same as no limit");
    assert_eq!(answer.statuses[4].duration_until_reset, None);
}

#[tokio::test]
async fn nothing_is_denied_in_a_global_dry_run() {
    let rules = "
domain: api
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: dry, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
";
    let mut client = client_of(rules, |options| options.global_shadow = true).await;
    let of = |key| descriptor(&[(key, "x")]);
    for expected in [[OK; 4], [OVER_LIMIT, OVER_LIMIT, OK, OVER_LIMIT]] {
        let own = overridden(&[("own", "x")], 1, Unit::Year);
        let answer = send(&mut client, request([of("user"), of("quota"), of("dry"), own])).await;
        assert_eq!((answer.overall_code, codes(&answer)), (OK, expected.to_vec()));
    }
    let native = "
domain: api
rules:
  - { name: all, limit: 1 per year }
  - { name: ban, key: [user], limit: 1 per year, action: shadow_ban }
  - { name: hold, limit: 1 per year, action: { delay: { max_wait: 10s } } }
  - { name: keyed, key: [team], missing: deny, limit: 5 per year }
  - { name: soft, limit: 1 per year, action: { soft: { margin: 10% } } }
";
    let mut client = client_of(native, |options| options.global_shadow = true).await;
    for _ in 0..5 {
        assert_eq!(send(&mut client, request([of("user")])).await.overall_code, OK);
    }
}
