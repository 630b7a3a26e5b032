//! How many cases a property test tries.

use proptest::test_runner::Config;

/// Tries `number` cases times the factor in the environment variable `TEST_CASES_FACTOR`, which `scripts/test --long`
/// sets. `PROPTEST_CASES`, which proptest reads by itself, replaces the number of every test.
///
/// # Panics
///
/// If the factor is not a whole number from 1 on.
pub fn proptest_config(number: u32) -> Config {
    let (factor, usual) = (factor(), Config::default());
    Config {
        cases: number.saturating_mul(factor),
        max_global_rejects: usual.max_global_rejects.saturating_mul(factor),
        ..usual
    }
}

fn factor() -> u32 {
    match std::env::var("TEST_CASES_FACTOR") {
        Ok(factor) => match factor.parse() {
            Ok(factor) if factor > 0 => factor,
            _ => panic!("TEST_CASES_FACTOR is {factor}, not a whole number from 1 on"),
        },
        Err(_) => 1,
    }
}
