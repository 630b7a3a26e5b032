//! Usage logs: converted to entries and back, and copied while they change.

use proptest::prelude::*;
use tidegate_core::algorithm::{LimitAlgorithm, UsageLogAlgorithm};
use tidegate_core::{
    Algorithm, CopyProgress, Limit, TimedCost, Timestamp, UsageEntry, UsageLog, UsageLogCopy, UsageLogError,
};

fn sliding_log(limit: u64) -> UsageLogAlgorithm {
    let limit: Limit = format!("{{algorithm: sliding_log, limit: {limit}, per: 1s}}").parse().unwrap();
    match limit.algorithm() {
        Algorithm::UsageLog(algorithm) => algorithm.clone(),
        Algorithm::Packed(_) | Algorithm::Leases(_) => unreachable!("a sliding log keeps a usage log"),
    }
}

fn timed_cost(now_ns: u64, cost: u64) -> TimedCost {
    TimedCost { now: Timestamp::from_nanos(now_ns), cost }
}

fn entries(log: &UsageLog) -> Vec<UsageEntry> {
    log.entries().collect()
}

/// What happens to a log: a charge or a refund.
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

struct History {
    log: UsageLog,
    now_ns: u64,
}

impl History {
    fn apply(&mut self, algorithm: &UsageLogAlgorithm, event: Event) {
        match event {
            Event::Charge { later_ns, cost } => {
                self.now_ns += later_ns;
                algorithm.charge(&mut self.log, timed_cost(self.now_ns, cost));
            }
            Event::Refund { cost } => algorithm.refund(&mut self.log, timed_cost(self.now_ns, cost)),
        }
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]
    #[test]
    fn a_log_rebuilt_from_entries_decides_the_same(
        before in prop::collection::vec(event(), 0..60),
        after in prop::collection::vec((0_u64..200_000_000, 0_u64..5), 1..40),
    ) {
        let algorithm = sliding_log(20);
        let mut history = History { log: UsageLog::default(), now_ns: 0 };
        before.into_iter().for_each(|event| history.apply(&algorithm, event));
        let mut restored = UsageLog::from_entries(history.log.entries()).unwrap();
        prop_assert_eq!(entries(&restored), entries(&history.log));
        for (later_ns, cost) in after {
            history.now_ns += later_ns;
            let request = timed_cost(history.now_ns, cost);
            prop_assert_eq!(algorithm.decide(&mut restored, request), algorithm.decide(&mut history.log, request));
        }
    }

    /// Whatever happens between two steps, the finished copy equals the log at the last step.
    #[test]
    fn an_incremental_copy_equals_the_log_at_the_last_step(
        before in prop::collection::vec(event(), 0..60),
        between in prop::collection::vec(prop::collection::vec(event(), 0..4), 40),
        entries_max in 1_usize..12,
    ) {
        let algorithm = sliding_log(60);
        let mut history = History { log: UsageLog::default(), now_ns: 0 };
        before.into_iter().for_each(|event| history.apply(&algorithm, event));
        let mut copy = UsageLogCopy::default();
        for events in between {
            if copy.copy_next(&history.log, entries_max) == CopyProgress::Complete {
                prop_assert_eq!(copy.into_entries(), entries(&history.log));
                return Ok(());
            }
            events.into_iter().for_each(|event| history.apply(&algorithm, event));
        }
        prop_assert_eq!(copy.copy_next(&history.log, usize::MAX), CopyProgress::Complete);
        prop_assert_eq!(copy.into_entries(), entries(&history.log));
    }
}

#[test]
fn a_copy_restarts_when_the_log_was_reset() {
    let algorithm = sliding_log(60);
    let mut log = UsageLog::default();
    (0..50).for_each(|at| algorithm.charge(&mut log, timed_cost(at, 1)));
    let mut copy = UsageLogCopy::default();
    assert_eq!(copy.copy_next(&log, 10), CopyProgress::Partial);
    algorithm.charge(&mut log, timed_cost(5_000_000_000, 1));
    assert_eq!((copy.copy_next(&log, 10), copy.restarts()), (CopyProgress::Complete, 1));
    assert_eq!(copy.into_entries(), [UsageEntry { stamp: 5_000_000_000, units: 1 }]);
}

#[test]
fn invalid_entries_are_refused() {
    let restored_units = |entries: &[(u64, u64)]| {
        UsageLog::from_entries(
            entries.iter().map(|(stamp, units)| UsageEntry { stamp: *stamp, units: *units }),
        )
        .map(|log| log.units())
    };
    let units_max = 1 << 40;
    assert_eq!(restored_units(&[]), Ok(0));
    assert_eq!(restored_units(&[(1, 5), (2, 1)]), Ok(6));
    assert_eq!(restored_units(&[(1, units_max), (2, units_max - 1)]), Ok(2 * units_max - 1));
    assert_eq!(restored_units(&[(1, 5), (1, 1)]), Err(UsageLogError::OutOfOrder));
    assert_eq!(restored_units(&[(2, 5), (1, 1)]), Err(UsageLogError::OutOfOrder));
    assert_eq!(restored_units(&[(1, 0)]), Err(UsageLogError::UnitsOutOfRange));
    assert_eq!(restored_units(&[(1, units_max + 1)]), Err(UsageLogError::UnitsOutOfRange));
    assert_eq!(restored_units(&[(1, units_max), (2, units_max)]), Err(UsageLogError::UnitsOutOfRange));
    assert_eq!(restored_units(&[(1, u64::MAX), (2, u64::MAX)]), Err(UsageLogError::UnitsOutOfRange));
}

#[test]
fn the_largest_possible_log_is_accepted() {
    let limit = (1 << 40) - 1;
    let algorithm = sliding_log(limit);
    let mut log = UsageLog::default();
    algorithm.charge(&mut log, timed_cost(1, u64::MAX));
    algorithm.charge(&mut log, timed_cost(2, limit));
    assert_eq!(log.units(), 2 * limit + 1);
    assert_eq!(UsageLog::from_entries(log.entries()).map(|restored| restored.units()), Ok(log.units()));
}
