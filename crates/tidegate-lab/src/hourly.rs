//! Limits by the hour, of any algorithm.

use tidegate::AlgorithmName;

/// `units` an hour, or held for an hour.
pub(crate) fn hourly(algorithm: AlgorithmName, units: u64) -> String {
    let span = if algorithm == AlgorithmName::Concurrency { "ttl" } else { "per" };
    format!("{{algorithm: {algorithm}, limit: {units}, {span}: 1h}}")
}
