//! Helpers that the tests of several crates share.

#![allow(missing_docs, reason = "only tests read it")]
#![allow(clippy::new_without_default, clippy::must_use_candidate, reason = "only tests call it")]

#[cfg(feature = "config-store")]
pub mod config_store;
pub mod etcd_server;
#[cfg(feature = "fake-store")]
pub mod fake_store;
pub mod ferretdb_server;
pub mod golden_file;
pub mod redis_server;

use proptest::test_runner::Config;

/// Tries `cases` cases times the factor in the environment variable `TEST_CASES_FACTOR`, which `scripts/test --long`
/// sets. `PROPTEST_CASES`, which proptest itself reads, overrides the number of every test.
///
/// # Panics
///
/// If the factor is not a whole number of at least 1.
pub fn proptest_config(cases: u32) -> Config {
    let (factor, default) = (factor(), Config::default());
    Config {
        cases: cases.saturating_mul(factor),
        max_global_rejects: default.max_global_rejects.saturating_mul(factor),
        ..default
    }
}

fn factor() -> u32 {
    match std::env::var("TEST_CASES_FACTOR") {
        Ok(factor) => match factor.parse() {
            Ok(factor) if factor > 0 => factor,
            _ => panic!("TEST_CASES_FACTOR is {factor}, not a whole number of at least 1"),
        },
        Err(_) => 1,
    }
}
