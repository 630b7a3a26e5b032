//! Every store against the files in `golden/`, through the public limiter.

#![cfg(feature = "calendar")]

use std::path::Path;
use std::sync::Arc;

use tidegate::{Limiter, MEMORY_BYTES_MIN, ManualClock, MemoryStore, Timestamp};
use tidegate_testing::golden_file::{GoldenDecision, GoldenFile};

fn limiter(file: &GoldenFile, store: Arc<MemoryStore>) -> Limiter<ManualClock> {
    let builder =
        file.limits().fold(Limiter::builder().store(store), |builder, (text, _)| builder.limit(text));
    builder.clock(ManualClock::default()).build().unwrap_or_else(|error| panic!("{:?}: {error}", file.path))
}

#[test]
fn limiters_match_the_golden_files() {
    let files = GoldenFile::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden"));
    assert!(!files.is_empty());
    let stores: [fn() -> MemoryStore; 2] =
        [MemoryStore::unbounded, || MemoryStore::bounded(MEMORY_BYTES_MIN)];
    for store in stores {
        for file in &files {
            let limiter = limiter(file, Arc::new(store()));
            for request in file.requests() {
                let now = Timestamp::from_nanos(request.at_us * 1_000);
                let peeked = GoldenDecision::from_decision(&limiter.peek_at("key", request.cost, now));
                let checked = GoldenDecision::from_decision(&limiter.check_at("key", request.cost, now));
                let at = format!("{:?}: {} {}", file.path, request.at_us, request.cost);
                assert_eq!(Some(&checked), request.decision.as_ref(), "{at}");
                assert_eq!(peeked, checked, "peek: {at}");
            }
        }
    }
}
