//! The headers of a decision.

use proptest::prelude::*;
use tidegate_core::headers::{LimitHeader, PolicyName, PolicyState};
use tidegate_core::{Decision, Limit, Nanos, Outcome, OutcomeKind, Wait};

const SECOND: u128 = 1_000_000_000;

fn limits(texts: &[&str]) -> Vec<Limit> {
    texts.iter().map(|text| text.parse().expect(text)).collect()
}

fn outcome(remaining: u64, retry_after: Wait, reset_after_ns: u128) -> Outcome {
    let kind = if retry_after == Wait::NONE { OutcomeKind::Allowed } else { OutcomeKind::Denied };
    Outcome {
        kind,
        remaining,
        retry_after,
        reset_after: Nanos::new(reset_after_ns),
        delay: Nanos::ZERO,
        over: 0,
    }
}

fn headers(decision: &Decision, limits: &[Limit]) -> Vec<String> {
    decision.headers(limits).iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

#[test]
fn headers_of_an_allowed_request() {
    let limits = limits(&["{limit: 100, per: 1m, name: burst}", "1000 per 1500ms"]);
    let decision =
        Decision::merge(&[outcome(50, Wait::NONE, 29 * SECOND + 1), outcome(900, Wait::NONE, SECOND / 2)]);
    assert_eq!(decision.retry_after_seconds(), None);
    assert_eq!(
        headers(&decision, &limits),
        [
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 50",
            "x-ratelimit-reset: 30",
            // A window of 1.5 seconds is not a whole number of seconds.
            r#"ratelimit-policy: "burst";q=100;w=60, "2";q=1000"#,
            r#"ratelimit: "burst";r=50;t=30"#,
        ]
    );
}

#[test]
fn headers_of_a_denied_request() {
    let limits = limits(&["{limit: 100, per: 1m}", "{limit: 5, per: 1d, name: täglich}"]);
    let decision = Decision::merge(&[
        outcome(0, Wait::of(Nanos::new(SECOND)), 60 * SECOND),
        outcome(0, Wait::of(Nanos::new(11 * SECOND + 1)), 86_400 * SECOND),
    ]);
    assert_eq!(decision.retry_after_seconds(), Some(12));
    assert_eq!(
        headers(&decision, &limits),
        [
            "retry-after: 12",
            "x-ratelimit-retry-after: 12",
            "x-ratelimit-limit: 5",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 86400",
            r#"ratelimit-policy: "t%C3%A4glich";q=5;w=86400, "1";q=100;w=60"#,
            r#"ratelimit: "t%C3%A4glich";r=0;t=12"#,
        ]
    );
}

#[test]
fn headers_of_a_request_that_can_never_pass() {
    let limits = limits(&["{algorithm: concurrency, limit: 3, ttl: 90s}"]);
    let decision = Decision::of_one(outcome(3, Wait::NEVER, 0));
    assert_eq!(decision.retry_after_seconds(), None);
    assert_eq!(
        headers(&decision, &limits),
        [
            "x-ratelimit-limit: 3",
            "x-ratelimit-remaining: 3",
            "x-ratelimit-reset: 0",
            // A ttl is not a window.
            r#"ratelimit-policy: "1";q=3"#,
            r#"ratelimit: "1";r=3"#,
        ]
    );
}

#[test]
fn a_decision_without_limits_has_no_headers() {
    assert_eq!(headers(&Decision::merge(&[]), &[]), [""; 0]);
}

#[test]
fn long_lists_are_cut_and_keep_the_limit_that_decided() {
    let limits = limits(&["10/s"; 12]);
    let mut outcomes = vec![outcome(9, Wait::NONE, 0); 12];
    outcomes[11].remaining = 1;
    let headers = Decision::merge(&outcomes).headers(&limits);
    let policy = headers.get(LimitHeader::Policy).unwrap();
    assert!(policy.starts_with(r#""12";q=10;w=1, "1";q=10"#), "{policy}");
    assert_eq!(policy.split(", ").count(), tidegate_core::headers::LISTED_LIMITS_MAX);
}

/// A time that is too large for a structured field becomes the largest integer that it can hold.
#[test]
fn times_are_whole_numbers_of_structured_fields() {
    let limits = limits(&["1 per 3650d burst 1099511627775"]);
    let decision = Decision::of_one(outcome(0, Wait::of(Nanos::new(u128::MAX / 2)), 0));
    assert_eq!(decision.retry_after_seconds(), Some(u64::MAX));
    let headers = decision.headers(&limits);
    assert_eq!(headers.get(LimitHeader::State), Some(r#""1";r=0;t=999999999999999"#));
}

fn policy_name() -> impl Strategy<Value = (String, Option<String>, usize)> {
    let name = "[a1/%é\"\\\\ ]{1,4}";
    (name, proptest::option::of(name), 0_usize..12)
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(2_000))]

    /// Two policies have the same name in headers only if they have the same rule and limit. The name is printable
    /// ASCII, and the same without quotes.
    #[test]
    fn names_in_headers_are_unique(one in policy_name(), other in policy_name()) {
        let written = |(rule, name, index): &(String, Option<String>, usize)| {
            let name = PolicyName { rule: Some(rule), name: name.as_deref(), index: *index };
            let mut text = String::new();
            PolicyState { name, remaining: 0, until: Wait::NEVER }.push_to(&mut text);
            (name.to_string(), text)
        };
        let id = |(rule, name, index): &(String, Option<String>, usize)| {
            (rule.clone(), name.clone(), name.is_none().then_some(*index))
        };
        let ((plain, quoted), (other_plain, other_quoted)) = (written(&one), written(&other));
        prop_assert_eq!(plain == other_plain, id(&one) == id(&other));
        prop_assert_eq!(quoted == other_quoted, id(&one) == id(&other));
        prop_assert!(quoted.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", quoted);
        let unescaped = plain.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(quoted, format!("\"{unescaped}\";r=0"));
    }
}
