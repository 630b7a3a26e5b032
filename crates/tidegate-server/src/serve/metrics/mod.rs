//! What is counted, for Prometheus.

use tidegate::rules::Answer;
use tidegate_core::Verdict;

use super::Protocol;

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// A request was decided.
    pub fn decided(&self, _by: Protocol, _answer: &Answer<'_>) {}

    /// A connection was opened.
    pub fn connected(&self, _by: Protocol) {}

    /// A connection was closed.
    pub fn disconnected(&self, _by: Protocol) {}

    /// A connection was turned away: there are as many as there may be.
    pub fn turned_away(&self, _by: Protocol) {}

    /// A call that brought its own limit was decided.
    pub fn throttled(&self, _verdict: Verdict) {}

    /// A connection was closed because it speaks another protocol than its port.
    pub fn foreign(&self, _by: Protocol, _spoken: &'static str) {}
}
