//! Simulated fleets: the modes keep to their bounds, and the checker finds bugs.

use tidegate_lab::simulate::{ModeName, Mutation, Variant, run_seed};

/// How many seeds of each mode run here. `tidegate-lab simulate` runs more.
const SEEDS: u64 = 250;
/// A bug must be found within this many seeds.
const MUTATION_SEEDS: u64 = 400;

/// Seeds that failed once. They mean another scenario when the generator changes, so each says what it was.
const KEPT: &[(ModeName, u64, &str)] = &[
    (
        ModeName::Leased,
        568,
        "a change of L and B that keeps the arrival time admits more than either limit alone",
    ),
    (ModeName::Leased, 203, "requests that waited for small refills timed out in a healthy fleet"),
    (ModeName::Leased, 53, "a cost above what was left in a lease, and in the store"),
    (ModeName::Leased, 98, "T about as long as a round trip"),
    (ModeName::Eventual, 55, "the first push of a process that does not know the store's clock"),
    (ModeName::Eventual, 7, "two servers with different clocks"),
    (ModeName::Eventual, 302, "a partition begins while counts are being sent"),
    (ModeName::Eventual, 78, "a unit that was granted strictly, and a count that overtook it"),
    (ModeName::Eventual, 165, "what a window carries over was forgotten with its idle key"),
    (ModeName::Eventual, 58, "an estimate of the store's clock that was ahead of it"),
    (ModeName::Eventual, 970, "a bucket with a debt, whose key was forgotten"),
    (ModeName::Eventual, 1296, "a count that was overtaken by a unit that was granted strictly"),
    (ModeName::Eventual, 2405, "a unit that was granted strictly and counted twice in the copy"),
    (ModeName::Eventual, 649, "a burst of requests in a window that pays for the one before"),
    (ModeName::Eventual, 20_150, "a reload that switches the payment off"),
    (ModeName::Eventual, 468, "clocks that drifted apart while a key was idle"),
];

/// The same for seeds of all modes.
const KEPT_OF_ALL_MODES: &[(u64, &str)] = &[
    (8257, "replies that were under way when writes were lost"),
    (9057, "units of an earlier process"),
    (46_581, "a lower limit in a window that pays"),
    (9637, "clocks that drifted apart in a partition"),
];

fn variant(modes: &[ModeName], mutation: Option<Mutation>) -> Variant<'_> {
    Variant { modes, mutation, is_traced: false }
}

fn assert_all_pass(mode: ModeName, seeds: impl Iterator<Item = u64>) {
    let failures: Vec<String> = seeds
        .filter_map(|seed| run_seed(seed, variant(&[mode], None)).err())
        .map(|failure| failure.to_string())
        .collect();
    assert!(failures.is_empty(), "{mode:?}: {} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn strict_keeps_to_its_bound() {
    assert_all_pass(ModeName::Strict, 0..SEEDS);
}

#[test]
fn leased_keeps_to_its_bound() {
    assert_all_pass(ModeName::Leased, 0..SEEDS);
}

#[test]
fn eventual_keeps_to_its_bound() {
    assert_all_pass(ModeName::Eventual, 0..SEEDS);
}

#[test]
fn seeds_that_failed_once_pass() {
    for (mode, seed, why) in KEPT {
        if let Err(failure) = run_seed(*seed, variant(&[*mode], None)) {
            panic!("{mode:?}, {why}: {failure}");
        }
    }
    for (seed, why) in KEPT_OF_ALL_MODES {
        if let Err(failure) = run_seed(*seed, variant(&ModeName::ALL, None)) {
            panic!("{why}: {failure}");
        }
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..100 {
        for mode in ModeName::ALL {
            let run = || run_seed(seed, variant(&[mode], None)).map_err(|failure| failure.to_string());
            assert_eq!(run(), run(), "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn the_checker_finds_each_mutation() {
    for mutation in Mutation::ALL {
        for mode in modes_of(mutation) {
            let modes = std::slice::from_ref(mode);
            let finds = |seed: &u64| {
                run_seed(*seed, variant(modes, Some(mutation))).is_err()
                    && run_seed(*seed, variant(modes, None)).is_ok()
            };
            assert!((0..MUTATION_SEEDS).any(|seed| finds(&seed)), "{mutation:?} is not found in {mode:?}");
        }
    }
}

/// The modes that a bug can be in.
fn modes_of(mutation: Mutation) -> &'static [ModeName] {
    match mutation {
        Mutation::CountsDoubled | Mutation::OldHitsInNewWindow | Mutation::CountsLostInFlush => {
            &[ModeName::Eventual]
        }
        Mutation::RefundWithoutClock | Mutation::LeaseAfterWindow | Mutation::TimeFromReply => {
            &[ModeName::Leased]
        }
        _ => &[ModeName::Leased, ModeName::Eventual],
    }
}
