//! Who decides, with which limit, for which keys.

/// Somebody who decides over Redis.
#[derive(Debug)]
pub(super) struct Contender {
    pub name: &'static str,
    pub by: By,
    pub keys: Keys,
}

/// How it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Tidegate's store in a worker, with these limits.
    Tidegate(&'static [&'static str]),
    /// The same on a Redis Cluster of one server, where a call has the keys of one slot.
    TidegateOnCluster(&'static [&'static str]),
    /// A script of a dozen lines that decides one key in a call, in a worker: gcra that is never over, or always.
    PlainScript(Over),
    /// limitador with its storage in Redis, in a worker.
    Limitador,
    /// `redis-benchmark` with INCR, which decides nothing.
    Incr,
    /// `tidegate serve` asked by h2load.
    TidegateServer,
    /// envoyproxy/ratelimit asked by h2load.
    Ratelimit,
}

/// Whether the limit is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Never,
    Always,
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// One after the other of ten thousand.
    Each,
    /// One.
    Hot,
}

/// Distinct keys.
pub(super) const KEYS: u64 = 10_000;

pub(super) const PLAIN: &str = "plain script, a key each";
pub(super) const PLAIN_HOT: &str = "plain script, one key";
pub(super) const PLAIN_DENIED: &str = "plain script, one denied key";
pub(super) const GCRA: &str = "tidegate gcra, a key each";
pub(super) const GCRA_HOT: &str = "tidegate gcra, one key";
pub(super) const GCRA_DENIED: &str = "tidegate gcra, one denied key";
pub(super) const LIMITADOR: &str = "limitador, a key each";
pub(super) const GCRA_WITH_REMAINDER: &str = "tidegate gcra with a remainder, a key each";
pub(super) const TOKEN_BUCKET: &str = "tidegate token_bucket, a key each";
pub(super) const LEAKY_BUCKET: &str = "tidegate leaky_bucket, a key each";
pub(super) const FIXED_WINDOW: &str = "tidegate fixed_window, a key each";
pub(super) const SLIDING_WINDOW: &str = "tidegate sliding_window, a key each";
pub(super) const SUB_WINDOWS: &str = "tidegate sub_windows, a key each";
pub(super) const SLIDING_LOG: &str = "tidegate sliding_log, a key each";
pub(super) const CONCURRENCY: &str = "tidegate concurrency, a key each";

const fn one(name: &'static str, by: By, keys: Keys) -> Contender {
    Contender { name, by, keys }
}

static ALL: [Contender; 20] = {
    use By::{Incr, Limitador, PlainScript, Ratelimit, Tidegate, TidegateOnCluster, TidegateServer};
    use Keys::{Each, Hot};
    // Every request is admitted, by a burst and not by a high rate, so that states stay live. A log and leases, whose size
    // is part of what they cost, have limits as people set them.
    const GCRA_LIMIT: &str = "{algorithm: gcra, limit: 1000, per: 1h, burst: 10000000}";
    const FIXED_LIMIT: &str = "{algorithm: fixed_window, limit: 1000000, per: 1m}";
    [
        one(PLAIN, PlainScript(Over::Never), Each),
        one(GCRA, Tidegate(&[GCRA_LIMIT]), Each),
        one(
            GCRA_WITH_REMAINDER,
            Tidegate(&["{algorithm: gcra, limit: 1001, per: 1h, burst: 10000000}"]),
            Each,
        ),
        one(
            TOKEN_BUCKET,
            Tidegate(&["{algorithm: token_bucket, limit: 1000, per: 1h, burst: 10000000}"]),
            Each,
        ),
        one(
            LEAKY_BUCKET,
            Tidegate(&["{algorithm: leaky_bucket, limit: 1000, per: 1h, queue: 10000000}"]),
            Each,
        ),
        one(FIXED_WINDOW, Tidegate(&[FIXED_LIMIT]), Each),
        one(SLIDING_WINDOW, Tidegate(&["{algorithm: sliding_window, limit: 1000000, per: 1m}"]), Each),
        one(SUB_WINDOWS, Tidegate(&["{algorithm: sub_windows, limit: 1000000, per: 1m}"]), Each),
        one(SLIDING_LOG, Tidegate(&["{algorithm: sliding_log, limit: 100, per: 1m}"]), Each),
        one(CONCURRENCY, Tidegate(&["{algorithm: concurrency, limit: 20, ttl: 1m}"]), Each),
        one("tidegate gcra and fixed_window, a key each", Tidegate(&[GCRA_LIMIT, FIXED_LIMIT]), Each),
        one("tidegate gcra, a key each, in a cluster", TidegateOnCluster(&[GCRA_LIMIT]), Each),
        one(PLAIN_HOT, PlainScript(Over::Never), Hot),
        one(GCRA_HOT, Tidegate(&[GCRA_LIMIT]), Hot),
        one(PLAIN_DENIED, PlainScript(Over::Always), Hot),
        one(GCRA_DENIED, Tidegate(&["{algorithm: gcra, limit: 1, per: 1d}"]), Hot),
        one(LIMITADOR, Limitador, Each),
        one("redis-benchmark INCR, a key each", Incr, Each),
        one("tidegate serve, gRPC, one key", TidegateServer, Hot),
        one("envoyproxy/ratelimit, gRPC, one key", Ratelimit, Hot),
    ]
};

impl Contender {
    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter()
    }

    /// The one of this name, for a worker that is told who it is.
    pub(super) fn of_name(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|contender| contender.name == name)
    }
}
