//! Compares the algorithms with the files in `golden/`. Other implementations must match the same files.
//!
//! The decisions in the files come from the models, never from the code under test. To add a case, write a file with
//! limits and requests but without decisions, or change an existing one. Then let the models fill it in:
//!
//! ```text
//! TIDEGATE_WRITE_GOLDEN=1 cargo test -p tidegate-core --test it golden
//! ```
//!
//! Then review the result: a golden file is only as good as the arithmetic that was checked by hand.

#![cfg(feature = "calendar")]

use std::path::Path;
use std::sync::Once;

use tidegate_core::{AlgorithmName, ChargeDecision, Decision, Limit, OutcomeKind, Role};
use tidegate_testing::golden_file::{GoldenDecision, GoldenFile, GoldenLine, GoldenRequest};

use crate::models::{Event, ModelKey, predict};
use crate::subject::{Subject, timed_cost};

/// The files use the time of Redis, which is in microseconds.
const NANOS_PER_MICRO: u64 = 1_000;

/// All files. First lets the models rewrite them, if that is requested.
fn golden_files() -> Vec<GoldenFile> {
    static REWRITTEN: Once = Once::new();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    REWRITTEN.call_once(|| {
        if std::env::var_os("TIDEGATE_WRITE_GOLDEN").is_some_and(|value| value == "1") {
            GoldenFile::read_all(&directory).into_iter().for_each(rewrite);
        }
    });
    GoldenFile::read_all(&directory)
}

fn rewrite(mut file: GoldenFile) {
    let mut keys = model_keys(&file);
    for line in &mut file.lines {
        if let GoldenLine::Request(request) = line {
            request.decision = Some(GoldenDecision::from_decision(&model_decision(&mut keys, request)));
        }
    }
    file.write();
}

/// All or nothing: asks every limit, then charges all of them by the common decision, then collects the outcomes.
fn decide(subjects: &mut [Subject], request: &GoldenRequest) -> Decision {
    let request = timed_cost(request.at_us * NANOS_PER_MICRO, request.cost);
    let kinds: Vec<OutcomeKind> = subjects.iter().map(|subject| subject.outcome_kind(request)).collect();
    let decision = kinds.iter().copied().max().unwrap_or(OutcomeKind::Allowed);
    let is_any_over = decision == OutcomeKind::Denied;
    let outcomes: Vec<_> = subjects
        .iter_mut()
        .zip(kinds)
        .map(|(subject, outcome)| {
            let charge_decision = ChargeDecision { outcome, decision, role: Role::Enforced, is_any_over };
            subject.charge_if_due(request, charge_decision);
            subject.outcome(request, charge_decision)
        })
        .collect();
    Decision::merge(&outcomes)
}

/// The decision of the models.
fn model_decision(keys: &mut [ModelKey], request: &GoldenRequest) -> Decision {
    let event = Event { at: u128::from(request.at_us * NANOS_PER_MICRO), cost: request.cost };
    let passes = keys.iter().all(|key| key.admits(event));
    let outcomes: Vec<_> = keys
        .iter_mut()
        .map(|key| {
            let after = key.after(event, passes);
            let outcome = predict::outcome(key, &after, event, passes);
            *key = after;
            outcome
        })
        .collect();
    Decision::merge(&outcomes)
}

fn model_keys(file: &GoldenFile) -> Vec<ModelKey> {
    file.limits().map(|(_, spec)| ModelKey::new(spec)).collect()
}

/// Detects a file that was changed but not filled in again.
#[test]
fn the_models_agree_with_the_files() {
    for file in golden_files() {
        let mut keys = model_keys(&file);
        for request in file.requests() {
            let expected = GoldenDecision::from_decision(&model_decision(&mut keys, request));
            assert_eq!(
                request.decision,
                Some(expected),
                "{:?}: {} {}",
                file.path,
                request.at_us,
                request.cost
            );
        }
    }
}

#[test]
fn the_algorithms_agree_with_the_files() {
    for file in golden_files() {
        let read = |(text, _)| str::parse::<Limit>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut subjects: Vec<Subject> = file.limits().map(read).map(Subject::new).collect();
        for request in file.requests() {
            let decided = GoldenDecision::from_decision(&decide(&mut subjects, request));
            assert_eq!(
                Some(decided),
                request.decision,
                "{:?}: {} {}",
                file.path,
                request.at_us,
                request.cost
            );
        }
    }
}

/// Both parsers of limits read the same.
#[test]
fn both_parsers_read_the_same_limits() {
    for file in golden_files() {
        assert!(file.limits().count() > 0, "{:?} has no limit", file.path);
        for (text, spec) in file.limits() {
            assert_eq!(text.parse(), spec.clone().build(), "{:?}", file.path);
        }
    }
}

/// There are at least two files for every algorithm, and the first line of each says what it shows.
#[test]
fn every_algorithm_has_at_least_two_files() {
    let files = golden_files();
    for algorithm in AlgorithmName::ALL {
        let uses = |file: &&GoldenFile| file.limits().any(|(_, spec)| spec.algorithm == Some(algorithm));
        assert!(files.iter().filter(uses).count() >= 2, "{algorithm}");
    }
    for file in files {
        assert!(matches!(file.lines.first(), Some(GoldenLine::Comment(text)) if text.starts_with("# ")));
    }
}
