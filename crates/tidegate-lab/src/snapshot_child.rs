//! A process that counts and writes snapshots until it is killed, and a check of its snapshots.
//!
//! It counts in generations: each generation charges every key once and then writes a snapshot. So in every complete
//! snapshot all keys have used the same number of units, the number of the generation. The process continues from the
//! existing snapshot, and prints a line before and after it writes one.

use std::path::Path;
use std::process::ExitCode;

use tidegate::snapshot::RestoreStatus;
use tidegate::store::{Charge, Counter, Plan};
use tidegate::{MemoryStore, Timestamp};

/// The name of the file.
pub const SNAPSHOT: &str = "limits.snapshot";

const MEMORY_MAX_BYTES: u64 = 64 << 20;
const START_NS: u64 = 1_700_000_000 * 1_000_000_000;
const PACKED_KEYS: u64 = 20_000;
const LOG_KEYS: u64 = 20;
/// No limit is reached, and no usage log grows large.
const GENERATIONS_MAX: u64 = 20_000;

/// A line that the process prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It has started from this generation; zero without a snapshot.
    Restored(u64),
    /// It starts to write this generation.
    Writing(u64),
    /// It has written this generation.
    Written(u64),
}

/// The store of the process.
pub struct Generations {
    store: MemoryStore,
    keys: [(Counter, u64); 2],
}

impl Generations {
    /// Restores the store from the snapshot in `directory`, and returns what it found there.
    pub fn restore(directory: &Path) -> (Self, RestoreStatus) {
        let restored = MemoryStore::restore(directory.join(SNAPSHOT), MEMORY_MAX_BYTES, now(GENERATIONS_MAX));
        let counter =
            |index, limit: &str| Counter::new("killed", index, limit.parse().expect("the limit is valid"));
        let keys = [
            (counter(0, "{algorithm: fixed_window, limit: 1000000, per: 10d}"), PACKED_KEYS),
            (counter(1, "{algorithm: sliding_log, limit: 1000000, per: 10d}"), LOG_KEYS),
        ];
        (Self { store: restored.store, keys }, restored.status)
    }

    /// The units that every key has used; `None` if keys differ.
    pub fn generation(&self) -> Option<u64> {
        let mut used = self.each_key().map(|(counter, key)| {
            let key = key.to_le_bytes();
            let mut plan = Plan::new();
            plan.add(Charge::new(&key, counter, 0)).expect("a plan has room for one charge");
            counter.limit().rate().limit() - self.store.peek(&plan, now(GENERATIONS_MAX))[0].remaining
        });
        let first = used.next()?;
        used.all(|other| other == first).then_some(first)
    }

    fn charge(&self, generation: u64) {
        for (counter, key) in self.each_key() {
            let _ = self.store.check_charge(&Charge::new(&key.to_le_bytes(), counter, 1), now(generation));
        }
    }

    fn each_key(&self) -> impl Iterator<Item = (&Counter, u64)> {
        self.keys.iter().flat_map(|(counter, keys)| (0..*keys).map(move |key| (counter, key)))
    }
}

impl Line {
    /// Parses a line.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, generation) = text.trim_end().split_once(' ')?;
        let generation = generation.parse().ok()?;
        match word {
            "restored" => Some(Self::Restored(generation)),
            "writing" => Some(Self::Writing(generation)),
            "written" => Some(Self::Written(generation)),
            _ => None,
        }
    }

    fn print(self) {
        match self {
            Self::Restored(generation) => println!("restored {generation}"),
            Self::Writing(generation) => println!("writing {generation}"),
            Self::Written(generation) => println!("written {generation}"),
        }
    }
}

/// Counts and writes snapshots into `directory` until the process is killed or its output is closed.
pub fn run(directory: &Path) -> ExitCode {
    let (generations, found) = Generations::restore(directory);
    let Some(start) = generations.generation().filter(|_| !matches!(found, RestoreStatus::Refused(_))) else {
        eprintln!("{found}");
        return ExitCode::FAILURE;
    };
    Line::Restored(start).print();
    for generation in start + 1..=GENERATIONS_MAX {
        generations.charge(generation);
        Line::Writing(generation).print();
        if let Err(error) = generations.store.snapshot(directory.join(SNAPSHOT), now(generation)) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        Line::Written(generation).print();
    }
    ExitCode::SUCCESS
}

/// When a generation is charged.
fn now(generation: u64) -> Timestamp {
    Timestamp::from_nanos(START_NS + generation)
}
