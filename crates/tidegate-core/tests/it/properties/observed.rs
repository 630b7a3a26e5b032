//! Limits that look on: what they are charged when they are over, and what they say of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_core::{AlgorithmName, Ask, LimitSpec, Outcome, Role, Ruling, Verdict};

use crate::models::over::Bucket;
use crate::models::{Event, Key, foretell};
use crate::properties::against_models::event;
use crate::properties::requests::{Requests, requests};
use crate::properties::{cases, limits};
use crate::subject::Subject;

/// Enough for the counts of a sliding window to stay below where they stop.
const COUNTED_MAX: u64 = 1 << 30;
const BUCKETS: [AlgorithmName; 3] =
    [AlgorithmName::Gcra, AlgorithmName::TokenBucket, AlgorithmName::LeakyBucket];

/// What part a limit has in a request, and what the others say of it.
#[derive(Clone, Copy, Debug)]
struct Part {
    role: Role,
    others: Verdict,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let one = (select(vec![Role::Observed, Role::Observed, Role::Enforced]), 0..8_u8);
    let part = one.prop_map(|(role, others)| Part {
        role,
        others: if others == 0 { Verdict::Denied } else { Verdict::Allowed },
    });
    vec(part, 48)
}

impl Part {
    fn ruling(self, verdict: Verdict) -> Ruling {
        let fate = match self.role {
            Role::Enforced => verdict.max(self.others),
            Role::Observed => self.others,
        };
        Ruling { verdict, fate, role: self.role }
    }
}

/// Whether the answer says when to come again.
fn retries(ruling: Ruling) -> bool {
    let said = if ruling.role == Role::Observed { ruling.verdict } else { ruling.fate };
    said == Verdict::Denied
}

/// The steps that a store takes: the preview, which has to be the outcome, and the outcome.
fn stepped(subject: &mut Subject, ask: Ask, part: Part) -> Result<(Ruling, Outcome), TestCaseError> {
    let ruling = part.ruling(subject.weigh(ask));
    let preview = subject.preview(ask, ruling);
    subject.settle(ask, ruling);
    let outcome = subject.report(ask, ruling);
    prop_assert_eq!(preview, outcome, "preview of {:?} by {:?}", ask, ruling);
    Ok((ruling, outcome))
}

fn verdict_of(fits: bool) -> Verdict {
    if fits { Verdict::Allowed } else { Verdict::Denied }
}

/// Buckets against a level that has a floor.
fn empties(spec: &LimitSpec, requests: Requests, parts: Vec<Part>) -> Result<(), TestCaseError> {
    let burst = match spec.algorithm {
        Some(AlgorithmName::LeakyBucket) => spec.queue.unwrap_or(spec.limit) + 1,
        _ => spec.burst.unwrap_or(spec.limit),
    };
    let (mut subject, mut bucket) = (Subject::of(spec), Bucket::never_seen(spec.limit, spec.per_ns, burst));
    let mut caller = requests.to(spec);
    for part in parts {
        let Some(ask) = caller.next_ask() else { break };
        let asked = event(ask);
        let verdict = verdict_of(bucket.fits(asked));
        let (ruling, outcome) = stepped(&mut subject, ask, part)?;
        prop_assert_eq!(ruling.verdict, verdict, "{:?}", ask);
        if ruling.fate == Verdict::Allowed && ask.cost > 0 {
            bucket.charge(asked);
        }
        let expected = bucket.outcome(asked, verdict, retries(ruling));
        // How long an admitted request is held is for other tests; one that is only looked at never is.
        let delay = if part.role == Role::Enforced { outcome.delay } else { expected.delay };
        prop_assert_eq!(outcome, Outcome { delay, ..expected }, "{:?} by {:?}", ask, ruling);
        caller.hear(outcome);
    }
    Ok(())
}

/// Windows, logs and leases against their models, which count whatever passes.
fn counts(spec: &LimitSpec, requests: Requests, parts: Vec<Part>) -> Result<(), TestCaseError> {
    let (mut subject, mut key) = (Subject::of(spec), Key::never_seen(spec));
    let mut caller = requests.to(spec);
    for part in parts {
        let Some(ask) = caller.next_ask() else { break };
        let ask = match spec.algorithm {
            Some(AlgorithmName::SlidingWindow) => Ask { cost: ask.cost.min(COUNTED_MAX), ..ask },
            _ => ask,
        };
        let asked: Event = event(ask);
        let (ruling, outcome) = stepped(&mut subject, ask, part)?;
        let after = key.after(asked, ruling.fate == Verdict::Allowed);
        let told = foretell::outcome(&key, &after, asked, true);
        let retry_after =
            if retries(ruling) { foretell::retry_after(&after, asked) } else { told.retry_after };
        prop_assert_eq!(outcome, Outcome { retry_after, ..told }, "{:?} by {:?}", ask, ruling);
        key = after;
        caller.hear(outcome);
    }
    Ok(())
}

/// Limits whose model can be searched: small enough a window that every wait is found.
fn counting() -> impl Strategy<Value = LimitSpec> {
    let counts = |spec: &LimitSpec| match spec.algorithm {
        Some(AlgorithmName::SlidingWindow) => spec.limit < COUNTED_MAX,
        algorithm => algorithm.is_none_or(|algorithm| !BUCKETS.contains(&algorithm)),
    };
    limits::any_algorithm().prop_filter("a bucket, or counts that stop", counts)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn buckets_are_emptied_and_no_further(
        spec in select(BUCKETS.to_vec()).prop_flat_map(limits::of),
        requests in requests(),
        parts in parts(),
    ) {
        empties(&spec, requests, parts)?;
    }

    #[test]
    fn windows_logs_and_leases_count_whatever_passes(
        spec in counting(),
        requests in requests(),
        parts in parts(),
    ) {
        counts(&spec, requests, parts)?;
    }
}
