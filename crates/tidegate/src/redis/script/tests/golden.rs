//! Golden files, line by line: the outcomes, and when the key expires.

use std::path::Path;

use tidegate_core::{AlgorithmName, Decision};
use tidegate_testing::golden_file::{GoldenDecision, GoldenFile};

use super::*;

/// Redis cannot store a later expiry, and it would not matter.
const EXPIRES_MS_MAX: u128 = 1 << 52;
const NANOS_PER_MILLI: u128 = 1_000_000;

#[test]
fn redis_matches_the_golden_files() {
    let files = GoldenFile::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden"));
    let mut server = ScriptServer::new();
    for algorithm in AlgorithmName::ALL {
        let uses = |file: &GoldenFile| file.limits().any(|(_, spec)| spec.algorithm == Some(algorithm));
        assert!(files.iter().any(uses), "{algorithm}");
    }
    for file in &files {
        server.flush();
        let limits: Vec<Limit> = file.limits().map(|(text, _)| limit(text)).collect();
        for request in file.requests() {
            let at = format!("{:?}: {} {}", file.path, request.at_us, request.cost);
            let plan = |op| {
                let charge = |(index, limit)| charge(&format!("key:{index}"), limit, request.cost);
                redis_plan(op, limits.iter().enumerate().map(charge))
            };
            let peeked = server.call_one_at(request.at_us, plan(Op::Peek));
            let checked = server.call_one_at(request.at_us, plan(Op::Check));
            let decision = GoldenDecision::from_decision(&Decision::merge(&checked.outcomes));
            assert_eq!(Some(&decision), request.decision.as_ref(), "{at}");
            assert_eq!(peeked.outcomes, checked.outcomes, "peek: {at}");
            if limits.len() == 1 && decision.reset_after_ns > 0 {
                let resets_ns = u128::from(request.at_us) * 1_000 + decision.reset_after_ns;
                let resets_ms = resets_ns.div_ceil(NANOS_PER_MILLI).min(EXPIRES_MS_MAX);
                assert_eq!(
                    server.expires_ms(b"key:0").map(i128::from),
                    i128::try_from(resets_ms).ok(),
                    "{at}"
                );
            }
        }
    }
}
