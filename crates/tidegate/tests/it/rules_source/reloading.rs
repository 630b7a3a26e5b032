//! An engine that follows changes of its files.

use std::sync::Arc;

use tidegate::rules::{Descriptor, Entry, Reload, Reloader, Request};
use tidegate::{Engine, ManualClock, MemoryStore};

use super::*;

fn remaining(engine: &Engine<ManualClock>, cost: u64) -> u64 {
    let entries = [Entry { key: "user", value: "42" }];
    let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, cost)] };
    engine.check(&request).unwrap().remaining
}

#[test]
fn the_last_valid_rules_stay_active() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per hour"));
    let mut source = source([path]);
    let SourceUpdate::Changed(loaded) = source.poll() else { panic!("the file is new") };
    let store = Arc::new(MemoryStore::unbounded());
    let engine = Engine::with_store(loaded.domains, store, ManualClock::default()).unwrap();
    let mut reloader = Reloader::new(engine.clone(), source);
    assert!(matches!(reloader.reload(), Reload::Unchanged));
    assert_eq!(remaining(&engine, 2), 3);

    directory.write("api.yaml", "domain: api\nrules: [ { name: all, limit: none at all } ]");
    assert!(matches!(reloader.reload(), Reload::Rejected(report) if report.errors() == 1));
    assert!(matches!(reloader.reload(), Reload::Unchanged));
    assert_eq!(remaining(&engine, 1), 2);

    directory.write("api.yaml", rules("api", "10 per hour"));
    assert!(matches!(reloader.reload(), Reload::Replaced(report) if report.errors() == 0));
    // More is admitted from now on, and the usage stays.
    assert_eq!(remaining(reloader.engine(), 0), 4);

    directory.remove("api.yaml");
    assert!(matches!(reloader.reload(), Reload::Rejected(_)));
    assert_eq!(remaining(&engine, 1), 3);
}
