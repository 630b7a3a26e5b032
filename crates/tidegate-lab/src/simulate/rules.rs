//! The rules of a scenario: a main rule in any mode, and sometimes a strict rule beside it.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::store::{Carry, Counter, Mode, StorePolicy};
use tidegate::{AlgorithmName, Limit};

use super::clocks::{MS, SECOND};
use super::random::Random;

/// The index of the main rule.
pub(super) const MAIN: u8 = 0;
/// The index of the strict rule beside it.
pub(super) const SIDE: u8 = 1;

/// A rule. A reload changes its version.
#[derive(Clone, Debug)]
pub(super) struct SimRule {
    pub(super) algorithm: AlgorithmName,
    pub(super) window_ns: u64,
    pub(super) versions: Vec<Version>,
}

/// What a reload can change and keep all counts.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) limit: u64,
    pub(super) burst: u64,
    pub(super) policy: StorePolicy,
    pub(super) counter: Counter,
}

/// The modes that a rule of a scenario may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeName {
    /// Each request asks the shared store.
    Strict,
    /// From quota leases.
    Leased,
    /// From copies of shared counts.
    Eventual,
}

impl ModeName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Leased, Self::Eventual];

    /// The name in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased => "leased",
            Self::Eventual => "eventual",
        }
    }

    /// The mode of this name.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "strict" => Ok(Self::Strict),
            "leased" => Ok(Self::Leased),
            "eventual" => Ok(Self::Eventual),
            _ => Err("no such mode (hint: strict, leased or eventual)".to_owned()),
        }
    }
}

impl SimRule {
    /// A rule with one version.
    pub(super) fn new(
        name: &str,
        algorithm: AlgorithmName,
        window_ns: u64,
        limit: Limits,
        mode: Mode,
    ) -> Self {
        let mut rule = Self { algorithm, window_ns, versions: Vec::new() };
        rule.add_version(name, limit, mode);
        rule
    }

    fn add_version(&mut self, name: &str, Limits { limit, burst }: Limits, mode: Mode) {
        let builder = Limit::per(limit, Duration::from_nanos(self.window_ns)).algorithm(self.algorithm);
        let builder = if is_bucket(self.algorithm) { builder.burst(burst) } else { builder };
        let checked = builder.build().expect("the limits of a scenario are valid");
        let counter = Counter::new(name, 0, checked);
        let policy = StorePolicy { mode, ..StorePolicy::DEFAULT };
        self.versions.push(Version { limit, burst, policy, counter });
    }

    pub(super) fn mode(&self) -> ModeName {
        match self.versions[0].policy.mode {
            Mode::Leased { .. } => ModeName::Leased,
            Mode::Eventual { .. } => ModeName::Eventual,
            _ => ModeName::Strict,
        }
    }

    pub(super) fn is_bucket(&self) -> bool {
        is_bucket(self.algorithm)
    }

    /// The longest life of a lease, or the longest time between synchronisations.
    pub(super) fn life_ns_max(&self) -> u64 {
        self.versions.iter().map(Version::life_ns).max().unwrap_or(0)
    }

    pub(super) fn last_version(&self) -> &Version {
        self.versions.last().expect("a rule has a version")
    }
}

/// L and B. For windows B is L.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) limit: u64,
    pub(super) burst: u64,
}

impl Version {
    /// T.
    pub(super) fn life_ns(&self) -> u64 {
        match self.policy.mode {
            Mode::Leased { lease_us } => u64::from(lease_us.get()) * 1_000,
            Mode::Eventual { sync_us, .. } => u64::from(sync_us.get()) * 1_000,
            _ => 0,
        }
    }

    /// The most units at once.
    pub(super) fn capacity(&self) -> u64 {
        self.burst
    }

    /// The share of each node, if there are this many.
    pub(super) fn share(&self, nodes: usize) -> Limits {
        let share = |units: u64| (units / nodes as u64).max(1);
        Limits { limit: share(self.limit), burst: share(self.burst) }
    }
}

fn is_bucket(algorithm: AlgorithmName) -> bool {
    matches!(algorithm, AlgorithmName::Gcra | AlgorithmName::TokenBucket)
}

/// Draws the rules of a scenario.
pub(super) fn draw(random: &mut Random, modes: &[ModeName]) -> Vec<SimRule> {
    let algorithm = random.pick(&[
        AlgorithmName::FixedWindow,
        AlgorithmName::Gcra,
        AlgorithmName::TokenBucket,
        AlgorithmName::SlidingWindow,
    ]);
    let window_ns = random.pick(&[300 * MS, 500 * MS, SECOND, SECOND, 2 * SECOND]);
    let mode_name = random.pick(modes);
    let limits = draw_limits(random, algorithm);
    let mode = draw_mode(random, mode_name, window_ns);
    let mut main = SimRule::new("main", algorithm, window_ns, limits, mode);
    if random.once_in(4) {
        let limit = (limits.limit * random.pick(&[1, 2, 3, 6, 9]) / 3).max(1);
        let burst = if random.once_in(2) { limit } else { draw_burst(random, algorithm, limit) };
        let mode = if random.once_in(3) { draw_mode(random, mode_name, window_ns) } else { mode };
        main.add_version("main", Limits { limit, burst }, mode);
    }
    let mut rules = vec![main];
    if random.once_in(4) {
        let limit = (limits.limit * random.pick(&[1, 2, 4]) / 2).max(1);
        let algorithm = random.pick(&[AlgorithmName::FixedWindow, AlgorithmName::Gcra]);
        rules.push(SimRule::new("side", algorithm, window_ns, Limits { limit, burst: limit }, Mode::Strict));
    }
    rules
}

fn draw_limits(random: &mut Random, algorithm: AlgorithmName) -> Limits {
    let limit = random.pick(&[1, 2, 5, 10, 20, 40, 80, 150, 300]);
    Limits { limit, burst: draw_burst(random, algorithm, limit) }
}

fn draw_burst(random: &mut Random, algorithm: AlgorithmName, limit: u64) -> u64 {
    match is_bucket(algorithm) {
        true => (limit * random.pick(&[1, 2, 2, 2, 4]) / 2).max(1),
        false => limit,
    }
}

fn draw_mode(random: &mut Random, name: ModeName, window_ns: u64) -> Mode {
    let micros =
        |ns: u64| u32::try_from(ns / 1_000).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    match name {
        ModeName::Strict => Mode::Strict,
        ModeName::Leased => {
            // A lease that is over before its debit is answered is of no use.
            Mode::Leased { lease_us: micros((window_ns / random.pick(&[4, 10, 10, 10, 30])).max(20 * MS)) }
        }
        ModeName::Eventual => Mode::Eventual {
            sync_us: micros((window_ns / random.pick(&[8, 10, 20])).min(100 * MS)),
            carry: if random.once_in(3) { Carry::Off } else { Carry::On },
        },
    }
}
