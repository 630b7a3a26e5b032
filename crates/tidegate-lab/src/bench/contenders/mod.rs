//! The rate limiters to compare, one per file, each used as its own documentation says.

mod floor;
#[cfg(feature = "peers")]
mod governor;
#[cfg(feature = "peers")]
mod limitador;
#[cfg(feature = "peers")]
mod pingora;
#[cfg(feature = "peers")]
mod throttlecrab;
mod tidegate;

use std::hint::black_box;

use ::tidegate::AlgorithmName;

use super::workload::BenchLimit;
pub(super) use tidegate::Call;

pub(super) const FLOOR: &str = "floor";
/// The name of governor, which may not be compiled in.
pub(super) const GOVERNOR: &str = "governor";

/// Tidegate's algorithms with a state of constant size. The goals are for them.
pub(super) const PACKED: [AlgorithmName; 4] = [
    AlgorithmName::Gcra,
    AlgorithmName::TokenBucket,
    AlgorithmName::FixedWindow,
    AlgorithmName::SlidingWindow,
];

/// A rate limiter.
pub(super) trait Contender: Send + Sync {
    /// Its name in the tables.
    fn name(&self) -> &str;

    /// What a reader must know for a fair comparison.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Decides the requests of a lap on the only thread, and returns how many it admitted.
    fn lap_alone(&mut self, lap: Lap<'_>) -> u64 {
        self.lap_shared(lap)
    }

    /// Decides the requests of a lap while other threads may decide too, and returns how many it admitted.
    fn lap_shared(&self, lap: Lap<'_>) -> u64;
}

/// A series of requests. After the last key it continues with the first.
#[derive(Clone, Copy)]
pub(super) struct Lap<'a> {
    pub keys: &'a [String],
    /// The index of the first key.
    pub first: usize,
    pub decisions: u64,
}

impl Lap<'_> {
    /// As [`admitted`](Self::admitted), several requests at a time.
    #[inline(always)]
    fn admitted_in_batches(self, batch_keys: usize, mut decide: impl FnMut(&[String]) -> u64) -> u64 {
        let (mut admitted, mut left) = (0, self.decisions);
        let mut stretch = &self.keys[self.first..];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(stretch.len());
            for batch in stretch[..length].chunks(batch_keys) {
                admitted += decide(black_box(batch));
            }
            left -= length as u64;
            stretch = self.keys;
        }
        admitted
    }

    /// The measured loop. It is inlined into each contender, so that `decide` is not a call.
    #[inline(always)]
    fn admitted(self, mut decide: impl FnMut(&String) -> bool) -> u64 {
        let (mut admitted, mut left) = (0, self.decisions);
        let mut stretch = &self.keys[self.first..];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(stretch.len());
            for key in &stretch[..length] {
                admitted += u64::from(decide(black_box(key)));
            }
            left -= length as u64;
            stretch = self.keys;
        }
        admitted
    }
}

/// All contenders, in the order of the tables, with room for this many keys.
pub(super) fn all(limit: BenchLimit, keys: u64) -> Vec<Box<dyn Contender>> {
    let mut all = packed(Call::Answer, limit);
    all.extend(packed(Call::Verdict, limit));
    all.push(Box::new(tidegate::Tidegate::new(AlgorithmName::Gcra, Call::Many, limit)));
    #[cfg(feature = "peers")]
    {
        all.push(Box::new(governor::Governor::new(limit)));
        all.push(Box::new(throttlecrab::Throttlecrab::new(limit)));
        all.push(Box::new(limitador::Limitador::new(limit, keys)));
        all.push(Box::new(pingora::Pingora::new(limit)));
    }
    all.push(Box::new(floor::Floor::new(limit, keys)));
    all
}

/// Tidegate's algorithms and governor.
pub(super) fn tidegate_and_governor(limit: BenchLimit) -> Vec<Box<dyn Contender>> {
    let peers: Vec<Box<dyn Contender>> = vec![
        #[cfg(feature = "peers")]
        Box::new(governor::Governor::new(limit)),
    ];
    packed(Call::Answer, limit).into_iter().chain(peers).collect()
}

/// The names, for [`by_name`], of the contenders that store something per key.
pub(super) fn keeping_keys() -> Vec<&'static str> {
    let mut names = vec![AlgorithmName::Gcra.as_str()];
    #[cfg(feature = "peers")]
    names.extend([GOVERNOR, throttlecrab::NAME, limitador::NAME]);
    names.push(FLOOR);
    names
}

/// Makes one of [`keeping_keys`].
pub(super) fn by_name(name: &str, limit: BenchLimit, keys: u64) -> Option<Box<dyn Contender>> {
    match name {
        "gcra" => Some(Box::new(tidegate::Tidegate::new(AlgorithmName::Gcra, Call::Answer, limit))),
        FLOOR => Some(Box::new(floor::Floor::new(limit, keys))),
        #[cfg(feature = "peers")]
        GOVERNOR => Some(Box::new(governor::Governor::new(limit))),
        #[cfg(feature = "peers")]
        throttlecrab::NAME => Some(Box::new(throttlecrab::Throttlecrab::new(limit))),
        #[cfg(feature = "peers")]
        limitador::NAME => Some(Box::new(limitador::Limitador::new(limit, keys))),
        _ => None,
    }
}

fn packed(call: Call, limit: BenchLimit) -> Vec<Box<dyn Contender>> {
    let tidegate =
        |algorithm| Box::new(tidegate::Tidegate::new(algorithm, call, limit)) as Box<dyn Contender>;
    PACKED.into_iter().map(tidegate).collect()
}
