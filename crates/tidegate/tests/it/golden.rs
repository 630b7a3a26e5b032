//! Every store against the files in `golden/`, through the limiter that people use.

#![cfg(feature = "calendar")]

use std::path::Path;
use std::sync::Arc;

use tidegate::{Limiter, MEMORY_BYTES_MIN, ManualClock, MemoryStore, Timestamp};
use tidegate_testing::golden_file::{Answer, GoldenFile};

fn limiter(file: &GoldenFile, store: Arc<MemoryStore>) -> Limiter<ManualClock> {
    let builder =
        file.limits().fold(Limiter::builder().store(store), |builder, (text, _)| builder.limit(text));
    builder.clock(ManualClock::default()).build().unwrap_or_else(|error| panic!("{:?}: {error}", file.path))
}

#[test]
fn every_store_answers_as_the_files_say() {
    let files = GoldenFile::all_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden"));
    assert!(!files.is_empty());
    let stores: [fn() -> MemoryStore; 2] =
        [MemoryStore::unbounded, || MemoryStore::bounded(MEMORY_BYTES_MIN)];
    for store in stores {
        for file in &files {
            let limiter = limiter(file, Arc::new(store()));
            for request in file.requests() {
                let now = Timestamp::from_nanos(request.at_us * 1_000);
                let peeked = Answer::of(&limiter.peek_at("key", request.cost, now));
                let checked = Answer::of(&limiter.check_at("key", request.cost, now));
                let at = format!("{:?}: {} {}", file.path, request.at_us, request.cost);
                assert_eq!(Some(&checked), request.answer.as_ref(), "{at}");
                assert_eq!(peeked, checked, "peek: {at}");
            }
        }
    }
}
