//! The mode of a rule, before it is known for which limit.

use std::fmt;
use std::num::NonZeroU32;

use crate::limit::AlgorithmName;
use crate::{Carry, Limit, Mode};

/// The mode of a rule as it is written. The [`Mode`] of a limit also depends on the limit's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleMode {
    /// Every decision asks the shared store.
    #[default]
    Strict,
    /// Nodes debit units in advance.
    Leased {
        /// The longest life of a quota lease, in microseconds. If `None`, the default of each limit.
        lease_us: Option<NonZeroU32>,
    },
    /// Nodes count by themselves, and add up their counts afterwards.
    Eventual {
        /// The longest time between two synchronisations, in microseconds. If `None`, the default.
        sync_us: Option<NonZeroU32>,
        /// What happens to units beyond the limit of a fixed window when the window ends.
        carry: Carry,
    },
    /// Each node has the whole limit.
    Local,
}

/// Why a limit cannot have a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedMode {
    /// The algorithm has no such mode.
    Algorithm(AlgorithmName),
    /// The limit counts denied requests, which only the store sees in order.
    CountDenied,
}

impl RuleMode {
    /// All of them, with the default settings.
    pub const ALL: [Self; 4] = [
        Self::Strict,
        Self::Leased { lease_us: None },
        Self::Eventual { sync_us: None, carry: Carry::On },
        Self::Local,
    ];

    /// As it is written in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased { .. } => "leased",
            Self::Eventual { .. } => "eventual",
            Self::Local => "local",
        }
    }

    /// Whether decisions are made in this process and the shared store is told in advance or afterwards.
    pub const fn is_leased_or_eventual(self) -> bool {
        matches!(self, Self::Leased { .. } | Self::Eventual { .. })
    }

    /// Whether a limit can have this mode.
    pub fn check(self, limit: &Limit) -> Result<(), UnsupportedMode> {
        if !self.is_leased_or_eventual() {
            return Ok(());
        }
        match limit.algorithm_name() {
            AlgorithmName::Gcra | AlgorithmName::TokenBucket | AlgorithmName::SlidingWindow => Ok(()),
            AlgorithmName::FixedWindow if limit.algorithm().counts_denied() => {
                Err(UnsupportedMode::CountDenied)
            }
            AlgorithmName::FixedWindow => Ok(()),
            name => Err(UnsupportedMode::Algorithm(name)),
        }
    }

    /// The mode of a limit: strict if the limit cannot have this mode. A lease never lives longer than the window.
    pub fn for_limit(self, limit: &Limit) -> Mode {
        if self.check(limit).is_err() {
            return Mode::Strict;
        }
        match self {
            Self::Strict => Mode::Strict,
            Self::Leased { lease_us: None } => Mode::leased(limit),
            Self::Leased { lease_us: Some(lease_us) } => {
                let window_us = u32::try_from(limit.rate().window_ns() / 1_000).unwrap_or(u32::MAX);
                let window_us = NonZeroU32::new(window_us).unwrap_or(NonZeroU32::MIN);
                Mode::Leased { lease_us: lease_us.min(window_us) }
            }
            Self::Eventual { sync_us, carry } => match (sync_us, Mode::eventual()) {
                (None, Mode::Eventual { sync_us, .. }) | (Some(sync_us), _) => {
                    Mode::Eventual { sync_us, carry }
                }
                (None, mode) => mode,
            },
            Self::Local => Mode::Local,
        }
    }
}

impl From<Mode> for RuleMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Strict => Self::Strict,
            Mode::Leased { lease_us } => Self::Leased { lease_us: Some(lease_us) },
            Mode::Eventual { sync_us, carry } => Self::Eventual { sync_us: Some(sync_us), carry },
            Mode::Local => Self::Local,
        }
    }
}

impl fmt::Display for UnsupportedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(name) => write!(f, "{name}"),
            Self::CountDenied => f.write_str("count_denied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::{RuleMode, UnsupportedMode};
    use crate::{AlgorithmName, Carry, Limit, Mode};

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    fn micros(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn four_algorithms_have_all_modes() {
        let leased = RuleMode::Leased { lease_us: None };
        for name in AlgorithmName::ALL {
            let limit = match name {
                AlgorithmName::Concurrency => limit("{algorithm: concurrency, limit: 3, ttl: 5m}"),
                AlgorithmName::LeakyBucket => limit("{algorithm: leaky_bucket, limit: 3, per: 1m, queue: 5}"),
                _ => limit(&format!("{{algorithm: {name}, limit: 3, per: 1m}}")),
            };
            let is_supported = leased.check(&limit).is_ok();
            let four = ["gcra", "token_bucket", "fixed_window", "sliding_window"];
            assert_eq!(is_supported, four.contains(&name.as_str()), "{name}");
            assert_eq!(leased.for_limit(&limit) == Mode::Strict, !is_supported, "{name}");
            assert_eq!(RuleMode::Local.for_limit(&limit), Mode::Local);
            assert_eq!(RuleMode::Strict.for_limit(&limit), Mode::Strict);
        }
        let counted = limit("{algorithm: fixed_window, limit: 3, per: 1m, count_denied: true}");
        assert_eq!(leased.check(&counted), Err(UnsupportedMode::CountDenied));
        assert_eq!(RuleMode::ALL[2].check(&counted), Err(UnsupportedMode::CountDenied));
        assert_eq!(RuleMode::Strict.check(&counted), Ok(()));
    }

    #[test]
    fn times_depend_on_the_limit() {
        let leased = |lease_us| RuleMode::Leased { lease_us };
        let of = |mode: RuleMode, text: &str| mode.for_limit(&limit(text));
        assert_eq!(of(leased(None), "5 per second"), Mode::Leased { lease_us: micros(100_000) });
        assert_eq!(of(leased(None), "5 per hour"), Mode::Leased { lease_us: micros(1_000_000) });
        let two_seconds = leased(Some(micros(2_000_000)));
        assert_eq!(of(two_seconds, "5 per hour"), Mode::Leased { lease_us: micros(2_000_000) });
        // An override may have a shorter window than the rule.
        assert_eq!(of(two_seconds, "5 per second"), Mode::Leased { lease_us: micros(1_000_000) });
        let eventual = |sync_us| RuleMode::Eventual { sync_us, carry: Carry::Off };
        assert_eq!(of(eventual(None), "5/s"), Mode::Eventual { sync_us: micros(100_000), carry: Carry::Off });
        assert_eq!(
            of(eventual(Some(micros(7))), "5/s"),
            Mode::Eventual { sync_us: micros(7), carry: Carry::Off }
        );
        for mode in [Mode::Strict, Mode::eventual(), Mode::leased(&limit("5/s")), Mode::Local] {
            assert_eq!(RuleMode::from(mode).for_limit(&limit("5/s")), mode);
        }
    }
}
