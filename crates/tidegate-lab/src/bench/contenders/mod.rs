//! Who is compared, one per file. Each is used as its own documentation says.

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

use super::terms::Terms;

pub(super) use floor::NAME as FLOOR;

/// What governor is called, whether it is compiled or not.
pub(super) const GOVERNOR: &str = "governor";

/// Tidegate's algorithms with a constant-size state, which have goals to meet.
pub(super) const PACKED: [AlgorithmName; 4] = [
    AlgorithmName::Gcra,
    AlgorithmName::TokenBucket,
    AlgorithmName::FixedWindow,
    AlgorithmName::SlidingWindow,
];

/// Something that decides.
pub(super) trait Contender: Send + Sync {
    /// Its name in the tables.
    fn name(&self) -> &str;

    /// What a reader has to know to compare fairly.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Decides a lap as the only user, and says how many were admitted.
    fn lap_alone(&mut self, lap: Lap<'_>) -> u64 {
        self.lap_shared(lap)
    }

    /// Decides a lap while others may do so too, and says how many were admitted.
    fn lap_shared(&self, lap: Lap<'_>) -> u64;
}

/// A stretch of requests. The walk is begun again when it ends.
#[derive(Clone, Copy)]
pub(super) struct Lap<'a> {
    pub walk: &'a [String],
    /// Where in the walk it begins.
    pub first: usize,
    pub decisions: u64,
}

impl Lap<'_> {
    /// The loop that is measured. Inlined into each contender, so that `decide` costs no call of its own.
    #[inline(always)]
    fn admitted(self, mut decide: impl FnMut(&String) -> bool) -> u64 {
        let (mut admitted, mut left) = (0, self.decisions);
        let mut stretch = &self.walk[self.first..];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(stretch.len());
            for key in &stretch[..length] {
                admitted += u64::from(decide(black_box(key)));
            }
            left -= length as u64;
            stretch = self.walk;
        }
        admitted
    }
}

/// All of them, for this many keys, in the order of the tables.
pub(super) fn all(terms: Terms, keys: u64) -> Vec<Box<dyn Contender>> {
    let mut all = packed(terms);
    #[cfg(feature = "peers")]
    {
        all.push(Box::new(governor::Governor::new(terms)));
        all.push(Box::new(throttlecrab::Throttlecrab::new(terms)));
        all.push(Box::new(limitador::Limitador::new(terms, keys)));
        all.push(Box::new(pingora::Pingora::new(terms)));
    }
    all.push(Box::new(floor::Floor::new(terms, keys)));
    all
}

/// Tidegate, by algorithm, and governor.
pub(super) fn tidegate_and_governor(terms: Terms) -> Vec<Box<dyn Contender>> {
    let peers: Vec<Box<dyn Contender>> = vec![
        #[cfg(feature = "peers")]
        Box::new(governor::Governor::new(terms)),
    ];
    packed(terms).into_iter().chain(peers).collect()
}

/// The names of those that keep something per key, for [`by_name`].
pub(super) fn keeping_keys() -> Vec<&'static str> {
    let mut names = vec![AlgorithmName::Gcra.as_str()];
    #[cfg(feature = "peers")]
    names.extend([GOVERNOR, throttlecrab::NAME, limitador::NAME]);
    names.push(FLOOR);
    names
}

/// One of [`keeping_keys`].
pub(super) fn by_name(name: &str, terms: Terms, keys: u64) -> Option<Box<dyn Contender>> {
    match name {
        "gcra" => Some(Box::new(tidegate::Tidegate::new(AlgorithmName::Gcra, terms))),
        FLOOR => Some(Box::new(floor::Floor::new(terms, keys))),
        #[cfg(feature = "peers")]
        GOVERNOR => Some(Box::new(governor::Governor::new(terms))),
        #[cfg(feature = "peers")]
        throttlecrab::NAME => Some(Box::new(throttlecrab::Throttlecrab::new(terms))),
        #[cfg(feature = "peers")]
        limitador::NAME => Some(Box::new(limitador::Limitador::new(terms, keys))),
        _ => None,
    }
}

fn packed(terms: Terms) -> Vec<Box<dyn Contender>> {
    let tidegate = |algorithm| Box::new(tidegate::Tidegate::new(algorithm, terms)) as Box<dyn Contender>;
    PACKED.into_iter().map(tidegate).collect()
}
