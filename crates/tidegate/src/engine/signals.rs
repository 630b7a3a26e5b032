//! Signals: levels that resize elastic limits.

use std::fmt;

use tidegate_core::rules::{Level, Signal};

use super::Engine;
use crate::Clock;
use crate::store::Store;

/// A signal and its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalLevel {
    /// The name of the signal.
    pub name: String,
    /// The level of the signal. None if it was never pushed.
    pub level: Option<Level>,
}

/// No rule uses the signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSignal {
    name: String,
    known_signals: Vec<String>,
}

impl<C: Clock, S: Store> Engine<C, S> {
    /// Sets the level of a signal, which resizes elastic limits.
    pub fn push_signal(&self, name: &str, level: Level) -> Result<(), UnknownSignal> {
        let rules = self.rules();
        match rules.signal(name) {
            Some(signal) => {
                signal.push(level);
                self.inner.notify_changed();
                Ok(())
            }
            None => {
                let mut known_signals: Vec<String> = rules.signals().map(str::to_owned).collect();
                known_signals.sort_unstable();
                Err(UnknownSignal { name: name.to_owned(), known_signals })
            }
        }
    }

    /// The signals of the rules with their levels, sorted by name.
    pub fn signals(&self) -> Vec<SignalLevel> {
        let rules = self.rules();
        let level = |name: &str| rules.signal(name).and_then(Signal::level);
        let mut signals: Vec<SignalLevel> =
            rules.signals().map(|name| SignalLevel { name: name.to_owned(), level: level(name) }).collect();
        signals.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        signals
    }
}

impl fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no rule uses the signal `{}` (hint: ", self.name)?;
        match self.known_signals.as_slice() {
            [] => f.write_str(
                "an elastic rule names its signal, as in `elastic: { max: 200, signal: capacity }`)",
            ),
            names => write!(f, "known signals: {})", names.join(", ")),
        }
    }
}

impl std::error::Error for UnknownSignal {}
