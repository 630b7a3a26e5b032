//! The algorithms against the files in `golden/`, which every other implementation is held to as well.
//!
//! The answers in the files come from the models, never from the code under test. To add a case, write a file
//! with its limits and requests but without answers, or change one, and let the models fill it in:
//!
//! ```text
//! TIDEGATE_WRITE_GOLDEN=1 cargo test -p tidegate-core --test it golden
//! ```
//!
//! Then read what they wrote: a golden file is only as good as the arithmetic somebody did by hand.

#![cfg(feature = "calendar")]

use std::path::Path;
use std::sync::Once;

use tidegate_core::{AlgorithmName, Decision, Limit, Role, ChargeDecision, OutcomeKind};
use tidegate_testing::golden_file::{GoldenDecision, GoldenFile, GoldenLine, GoldenRequest};

use crate::models::{Event, ModelKey, predict};
use crate::subject::{Subject, timed_cost};

/// As in Redis, whose time these files are in.
const NANOS_PER_MICRO: u64 = 1_000;

/// Every file, after the models have written them anew if that was asked for.
fn golden() -> Vec<GoldenFile> {
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
    let mut keys = keys_of(&file);
    for line in &mut file.lines {
        if let GoldenLine::Request(request) = line {
            request.decision = Some(GoldenDecision::from_decision(&expected(&mut keys, request)));
        }
    }
    file.write();
}

/// All or nothing: every limit is asked, then all are settled by the common fate, then all report.
fn decide(subjects: &mut [Subject], request: &GoldenRequest) -> Decision {
    let ask = timed_cost(request.at_us * NANOS_PER_MICRO, request.cost);
    let verdicts: Vec<OutcomeKind> = subjects.iter().map(|subject| subject.outcome_kind(ask)).collect();
    let fate = verdicts.iter().copied().max().unwrap_or(OutcomeKind::Allowed);
    let outcomes: Vec<_> = subjects
        .iter_mut()
        .zip(verdicts)
        .map(|(subject, verdict)| {
            let ruling = ChargeDecision { outcome: verdict, decision: fate, role: Role::Enforced };
            subject.charge_if_due(ask, ruling);
            subject.outcome(ask, ruling)
        })
        .collect();
    Decision::merge(&outcomes)
}

/// The same by the models.
fn expected(keys: &mut [ModelKey], request: &GoldenRequest) -> Decision {
    let asked = Event { at: u128::from(request.at_us * NANOS_PER_MICRO), cost: request.cost };
    let passes = keys.iter().all(|key| key.admits(asked));
    let outcomes: Vec<_> = keys
        .iter_mut()
        .map(|key| {
            let after = key.after(asked, passes);
            let outcome = predict::outcome(key, &after, asked, passes);
            *key = after;
            outcome
        })
        .collect();
    Decision::merge(&outcomes)
}

fn keys_of(file: &GoldenFile) -> Vec<ModelKey> {
    file.limits().map(|(_, spec)| ModelKey::new(spec)).collect()
}

/// A file that was changed and not filled in again is found here.
#[test]
fn the_models_agree() {
    for file in golden() {
        let mut keys = keys_of(&file);
        for request in file.requests() {
            let foretold = GoldenDecision::from_decision(&expected(&mut keys, request));
            assert_eq!(request.decision, Some(foretold), "{:?}: {} {}", file.path, request.at_us, request.cost);
        }
    }
}

#[test]
fn the_algorithms_agree() {
    for file in golden() {
        let read = |(text, _)| str::parse::<Limit>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut subjects: Vec<Subject> = file.limits().map(read).map(Subject::new).collect();
        for request in file.requests() {
            let decided = GoldenDecision::from_decision(&decide(&mut subjects, request));
            assert_eq!(Some(decided), request.decision, "{:?}: {} {}", file.path, request.at_us, request.cost);
        }
    }
}

/// Both readers of limits read the same.
#[test]
fn the_limits_are_read_alike() {
    for file in golden() {
        assert!(file.limits().count() > 0, "{:?} has no limit", file.path);
        for (text, spec) in file.limits() {
            assert_eq!(text.parse(), spec.clone().build(), "{:?}", file.path);
        }
    }
}

/// At least two files for every algorithm, and a first line that says what each shows.
#[test]
fn every_algorithm_has_its_files() {
    let files = golden();
    for algorithm in AlgorithmName::ALL {
        let uses = |file: &&GoldenFile| file.limits().any(|(_, spec)| spec.algorithm == Some(algorithm));
        assert!(files.iter().filter(uses).count() >= 2, "{algorithm}");
    }
    for file in files {
        assert!(matches!(file.lines.first(), Some(GoldenLine::Comment(text)) if text.starts_with("# ")));
    }
}
