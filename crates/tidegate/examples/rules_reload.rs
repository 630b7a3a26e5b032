//! Rules from text, replaced under traffic: `cargo run --example rules_reload --features rules`.

use tidegate::Engine;
use tidegate::rules::{self, Descriptor, Entry, Request};

type BoxError = Box<dyn std::error::Error>;

const RULES: &str = "
domain: api
rules:
  - { name: per-user, key: [user], limit: 3 per hour }
";

const STRICTER_RULES: &str = "
domain: api
rules:
  - { name: per-user, key: [user], limit: 2 per hour }
  - { name: reports, match: { path: /reports }, key: [user], limit: { algorithm: concurrency, limit: 1, ttl: 5m } }
";

fn main() -> Result<(), BoxError> {
    run()
}

/// Requests, before and after the rules are replaced.
pub fn run() -> Result<(), BoxError> {
    let engine = Engine::new(rules::parse("rules.yaml", RULES)?.domains)?;
    let entries = [Entry { key: "user", value: "42" }, Entry { key: "path", value: "/reports" }];
    let descriptors = [Descriptor::new(&entries, 1)];
    let request = Request { domain: "api", descriptors: &descriptors };

    let answer = engine.check(&request)?;
    println!("{}: {} left", answer.kind.as_str(), answer.remaining);

    // Usage is kept.
    engine.replace(rules::parse("rules.yaml", STRICTER_RULES)?.domains)?;
    let report = engine.try_acquire(&request)?;
    println!("{} left, and a report is running", report.decision().remaining);
    match engine.try_acquire(&request) {
        Ok(_) => return Err("the limit is 2 per hour".into()),
        Err(refused) => println!("{refused}"),
    }

    // Invalid rules change nothing, and the error shows where the mistake is.
    if let Err(error) = rules::parse("rules.yaml", "domain: api\nrules: [{ name: x, limit: 5 per }]") {
        println!("{error}");
    }
    Ok(())
}
