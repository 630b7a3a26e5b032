//! Ledgers taken apart, put together again, and copied while they change.

use proptest::prelude::*;
use tidegate_core::algorithm::{Counting, LedgerAlgorithm};
use tidegate_core::{
    Algorithm, Ask, CopyProgress, Ledger, LedgerCopy, LedgerEntry, LedgerError, Limit, Timestamp,
};

fn sliding_log(limit: u64) -> LedgerAlgorithm {
    let limit: Limit = format!("{{algorithm: sliding_log, limit: {limit}, per: 1s}}").parse().unwrap();
    match limit.algorithm() {
        Algorithm::Ledger(algorithm) => algorithm.clone(),
        Algorithm::Packed(_) | Algorithm::Leases(_) => unreachable!("a sliding log is a ledger"),
    }
}

fn ask(now_ns: u64, cost: u64) -> Ask {
    Ask { now: Timestamp::from_nanos(now_ns), cost }
}

fn entries(ledger: &Ledger) -> Vec<LedgerEntry> {
    ledger.entries().collect()
}

/// What happens to a ledger: charged, or units taken back.
#[derive(Clone, Copy, Debug)]
enum Event {
    Charge { later_ns: u64, cost: u64 },
    Refund { cost: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0_u64..40_000_000, 1_u64..4).prop_map(|(later_ns, cost)| Event::Charge { later_ns, cost }),
        1 => (1_u64..6).prop_map(|cost| Event::Refund { cost }),
    ]
}

struct Played {
    ledger: Ledger,
    now_ns: u64,
}

impl Played {
    fn play(&mut self, algorithm: &LedgerAlgorithm, event: Event) {
        match event {
            Event::Charge { later_ns, cost } => {
                self.now_ns += later_ns;
                algorithm.charge(&mut self.ledger, ask(self.now_ns, cost));
            }
            Event::Refund { cost } => algorithm.refund(&mut self.ledger, ask(self.now_ns, cost)),
        }
    }
}

proptest! {
    #![proptest_config(tidegate_testing::cases(64))]
    #[test]
    fn a_ledger_put_together_again_decides_as_before(
        before in prop::collection::vec(event(), 0..60),
        after in prop::collection::vec((0_u64..200_000_000, 0_u64..5), 1..40),
    ) {
        let algorithm = sliding_log(20);
        let mut played = Played { ledger: Ledger::default(), now_ns: 0 };
        before.into_iter().for_each(|event| played.play(&algorithm, event));
        let mut again = Ledger::from_entries(played.ledger.entries()).unwrap();
        prop_assert_eq!(entries(&again), entries(&played.ledger));
        for (later_ns, cost) in after {
            played.now_ns += later_ns;
            let ask = ask(played.now_ns, cost);
            prop_assert_eq!(algorithm.decide(&mut again, ask), algorithm.decide(&mut played.ledger, ask));
        }
    }

    /// Whatever happens between two looks, the finished copy is the ledger as it is at the last one.
    #[test]
    fn a_copy_in_portions_is_the_ledger_at_the_last_look(
        before in prop::collection::vec(event(), 0..60),
        between in prop::collection::vec(prop::collection::vec(event(), 0..4), 40),
        entries_max in 1_usize..12,
    ) {
        let algorithm = sliding_log(60);
        let mut played = Played { ledger: Ledger::default(), now_ns: 0 };
        before.into_iter().for_each(|event| played.play(&algorithm, event));
        let mut copy = LedgerCopy::default();
        for events in between {
            if copy.go_on(&played.ledger, entries_max) == CopyProgress::Whole {
                prop_assert_eq!(copy.into_entries(), entries(&played.ledger));
                return Ok(());
            }
            events.into_iter().for_each(|event| played.play(&algorithm, event));
        }
        prop_assert_eq!(copy.go_on(&played.ledger, usize::MAX), CopyProgress::Whole);
        prop_assert_eq!(copy.into_entries(), entries(&played.ledger));
    }
}

#[test]
fn a_copy_of_a_ledger_that_is_gone_starts_over() {
    let algorithm = sliding_log(60);
    let mut ledger = Ledger::default();
    (0..50).for_each(|at| algorithm.charge(&mut ledger, ask(at, 1)));
    let mut copy = LedgerCopy::default();
    assert_eq!(copy.go_on(&ledger, 10), CopyProgress::Unfinished);
    algorithm.charge(&mut ledger, ask(5_000_000_000, 1));
    assert_eq!((copy.go_on(&ledger, 10), copy.times_started_over()), (CopyProgress::Whole, 1));
    assert_eq!(copy.into_entries(), [LedgerEntry { stamp: 5_000_000_000, units: 1 }]);
}

#[test]
fn nonsense_makes_no_ledger() {
    let of = |entries: &[(u64, u64)]| {
        Ledger::from_entries(
            entries.iter().map(|(stamp, units)| LedgerEntry { stamp: *stamp, units: *units }),
        )
        .map(|ledger| ledger.units())
    };
    let most = 1 << 40;
    assert_eq!(of(&[]), Ok(0));
    assert_eq!(of(&[(1, 5), (2, 1)]), Ok(6));
    assert_eq!(of(&[(1, most), (2, most - 1)]), Ok(2 * most - 1));
    assert_eq!(of(&[(1, 5), (1, 1)]), Err(LedgerError::OutOfOrder));
    assert_eq!(of(&[(2, 5), (1, 1)]), Err(LedgerError::OutOfOrder));
    assert_eq!(of(&[(1, 0)]), Err(LedgerError::UnitsOutOfRange));
    assert_eq!(of(&[(1, most + 1)]), Err(LedgerError::UnitsOutOfRange));
    assert_eq!(of(&[(1, most), (2, most)]), Err(LedgerError::UnitsOutOfRange));
    assert_eq!(of(&[(1, u64::MAX), (2, u64::MAX)]), Err(LedgerError::UnitsOutOfRange));
}

#[test]
fn the_fullest_ledger_there_can_be_is_one() {
    let most = (1 << 40) - 1;
    let algorithm = sliding_log(most);
    let mut ledger = Ledger::default();
    algorithm.charge(&mut ledger, ask(1, u64::MAX));
    algorithm.charge(&mut ledger, ask(2, most));
    assert_eq!(ledger.units(), 2 * most + 1);
    assert_eq!(Ledger::from_entries(ledger.entries()).map(|again| again.units()), Ok(ledger.units()));
}
