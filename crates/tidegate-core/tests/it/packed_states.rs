//! States made from parts, as another store keeps them, equal those that the algorithms make.

use tidegate_core::algorithm::{Arrival, Edges, PackedAlgorithm, Window, WindowPair};
use tidegate_core::{Algorithm, Limit, OutcomeKind, PackedState, UNITS_MAX};

use crate::subject::{Subject, timed_cost};

const SECOND: u64 = 1_000_000_000;
const YEAR_NS: u128 = 365 * 86_400 * 1_000_000_000;

fn packed(text: &str) -> (Limit, PackedAlgorithm) {
    let limit: Limit = text.parse().unwrap();
    let Algorithm::Packed(algorithm) = limit.algorithm().clone() else { panic!("{text}") };
    (limit, algorithm)
}

/// The state after these charges, each at its time.
fn charged(limit: Limit, requests: &[(u64, u64)]) -> PackedState {
    let mut subject = Subject::new(limit);
    for (at, cost) in requests {
        assert_eq!(subject.decide(timed_cost(*at, *cost)).kind, OutcomeKind::Allowed);
    }
    subject.packed()
}

#[test]
fn buckets_are_made_of_their_arrival_time() {
    // Two thirds of a second, after 7 ns.
    for text in [
        "{algorithm: gcra, limit: 3, per: 1s}",
        "{algorithm: token_bucket, limit: 3, per: 1s}",
        "{algorithm: leaky_bucket, limit: 3, per: 1s}",
    ] {
        let (limit, algorithm) = packed(text);
        let gcra = match &algorithm {
            PackedAlgorithm::Gcra(gcra) => gcra,
            PackedAlgorithm::TokenBucket(bucket) => bucket.as_gcra(),
            PackedAlgorithm::LeakyBucket(bucket) => bucket.as_gcra(),
            _ => panic!("{text}"),
        };
        let arrival = Arrival { whole_ns: 666_666_673, remainder: 2 };
        assert_eq!(gcra.state(arrival), Some(charged(limit, &[(7, 2)])), "{text}");
        assert_eq!(gcra.span(2), Arrival { whole_ns: 666_666_666, remainder: 2 });
        // No remainder can be that large, because L is at most UNITS_MAX.
        assert_eq!(gcra.state(Arrival { whole_ns: 0, remainder: UNITS_MAX }), None);
    }
    let (limit, PackedAlgorithm::Gcra(gcra)) = packed("{algorithm: gcra, limit: 1, per: 365d, burst: 1000}")
    else {
        panic!("it is gcra");
    };
    assert_eq!(gcra.burst_span(), Arrival { whole_ns: 1_000 * YEAR_NS, remainder: 0 });
    // After the end of representable time.
    let arrival = Arrival { whole_ns: 900 * YEAR_NS + 5, remainder: 0 };
    assert_eq!(gcra.state(arrival), Some(charged(limit, &[(5, 900)])));
}

#[test]
fn fixed_windows_are_made_of_their_end_and_what_was_used() {
    let (limit, PackedAlgorithm::FixedWindow(window)) =
        packed("{algorithm: fixed_window, limit: 9, per: 1s}")
    else {
        panic!("it is a fixed window");
    };
    assert!(matches!(window.edges(), Edges::Epoch));
    let end_ns = 2 * u128::from(SECOND);
    assert_eq!(
        window.state(Window { end_ns, used: 4 }),
        Some(charged(limit.clone(), &[(SECOND, 3), (SECOND + 1, 1)]))
    );
    // The last window of representable time ends after it.
    let late = charged(limit, &[(u64::MAX, 1)]);
    let end_ns = u128::from(u64::MAX - u64::MAX % SECOND) + u128::from(SECOND);
    assert_eq!(window.state(Window { end_ns, used: 1 }), Some(late));
    for wrong in [
        Window { end_ns: 0, used: 1 },
        Window { end_ns: u128::MAX, used: 1 },
        Window { end_ns: 1, used: UNITS_MAX + 2 },
    ] {
        assert_eq!(window.state(wrong), None, "{wrong:?}");
    }
}

#[test]
fn sliding_windows_are_made_of_two_counts_and_a_number() {
    let (limit, PackedAlgorithm::SlidingWindow(windows)) =
        packed("{algorithm: sliding_window, limit: 9, per: 1s}")
    else {
        panic!("it is a sliding window");
    };
    let pair = WindowPair { number: 8, prev: 3, cur: 2 };
    assert_eq!(windows.state(pair), Some(charged(limit.clone(), &[(7 * SECOND, 3), (8 * SECOND, 2)])));
    let last = u64::MAX / SECOND;
    let pair = WindowPair { number: last, prev: 0, cur: 1 };
    assert_eq!(windows.state(pair), Some(charged(limit, &[(u64::MAX, 1)])));
    assert_eq!(windows.state(WindowPair { number: 8, prev: 0, cur: 0 }), Some(PackedState::NEVER_SEEN));
    for wrong in [
        WindowPair { number: u64::MAX, prev: 0, cur: 1 },
        WindowPair { number: 1, prev: UNITS_MAX + 1, cur: 0 },
        WindowPair { number: 1, prev: 0, cur: UNITS_MAX + 1 },
    ] {
        assert_eq!(windows.state(wrong), None, "{wrong:?}");
    }
}
