//! How many cases a property test tries.

use proptest::test_runner::Config;

/// Tries `number` cases times the factor in the environment variable `TIDEGATE_CASES_FACTOR`, which `scripts/test --long`
/// sets. `PROPTEST_CASES`, which proptest reads by itself, replaces the number of every test.
///
/// # Panics
///
/// If the factor is not a whole number from 1 on.
pub fn cases(number: u32) -> Config {
    Config { cases: number.saturating_mul(factor()), ..Config::default() }
}

fn factor() -> u32 {
    match std::env::var("TIDEGATE_CASES_FACTOR") {
        Ok(factor) => match factor.parse() {
            Ok(factor) if factor > 0 => factor,
            _ => panic!("TIDEGATE_CASES_FACTOR is {factor}, not a whole number from 1 on"),
        },
        Err(_) => 1,
    }
}
