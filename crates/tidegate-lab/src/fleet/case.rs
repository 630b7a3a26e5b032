//! The cases to measure: what decides, with which limit, for which keys.

/// One case.
#[derive(Debug)]
pub(super) struct Case {
    pub name: &'static str,
    pub decided_by: DecidedBy,
    pub keys: Keys,
}

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// Tidegate's Redis store in a worker, with these limits.
    Tidegate(&'static [&'static str]),
    /// The same on a Redis Cluster of one server, where each call has the keys of one slot.
    TidegateOnCluster(&'static [&'static str]),
    /// A short gcra script that decides one key per call, in a worker. All requests get this outcome.
    PlainScript(ScriptOutcome),
    /// limitador with its Redis storage in a worker.
    Limitador,
    /// INCR by `redis-benchmark`, which decides nothing.
    Incr,
    /// `tidegate serve` under the load of h2load.
    TidegateServer,
    /// envoyproxy/ratelimit under the load of h2load.
    Ratelimit,
}

/// The outcome of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptOutcome {
    Allowed,
    Denied,
}

/// The keys of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// [`KEYS`] keys in turn.
    Each,
    /// One key.
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

const fn case(name: &'static str, decided_by: DecidedBy, keys: Keys) -> Case {
    Case { name, decided_by, keys }
}

static ALL: [Case; 20] = {
    use DecidedBy::{Incr, Limitador, PlainScript, Ratelimit, Tidegate, TidegateOnCluster, TidegateServer};
    use Keys::{Each, Hot};
    // A large burst, not a high rate, admits every request, so that states stay live. The cost of a log and of leases
    // depends on their size, so those have realistic limits.
    const GCRA_LIMIT: &str = "{algorithm: gcra, limit: 1000, per: 1h, burst: 10000000}";
    const FIXED_LIMIT: &str = "{algorithm: fixed_window, limit: 1000000, per: 1m}";
    [
        case(PLAIN, PlainScript(ScriptOutcome::Allowed), Each),
        case(GCRA, Tidegate(&[GCRA_LIMIT]), Each),
        case(
            GCRA_WITH_REMAINDER,
            Tidegate(&["{algorithm: gcra, limit: 1001, per: 1h, burst: 10000000}"]),
            Each,
        ),
        case(
            TOKEN_BUCKET,
            Tidegate(&["{algorithm: token_bucket, limit: 1000, per: 1h, burst: 10000000}"]),
            Each,
        ),
        case(
            LEAKY_BUCKET,
            Tidegate(&["{algorithm: leaky_bucket, limit: 1000, per: 1h, queue: 10000000}"]),
            Each,
        ),
        case(FIXED_WINDOW, Tidegate(&[FIXED_LIMIT]), Each),
        case(SLIDING_WINDOW, Tidegate(&["{algorithm: sliding_window, limit: 1000000, per: 1m}"]), Each),
        case(SUB_WINDOWS, Tidegate(&["{algorithm: sub_windows, limit: 1000000, per: 1m}"]), Each),
        case(SLIDING_LOG, Tidegate(&["{algorithm: sliding_log, limit: 100, per: 1m}"]), Each),
        case(CONCURRENCY, Tidegate(&["{algorithm: concurrency, limit: 20, ttl: 1m}"]), Each),
        case("tidegate gcra and fixed_window, a key each", Tidegate(&[GCRA_LIMIT, FIXED_LIMIT]), Each),
        case("tidegate gcra, a key each, in a cluster", TidegateOnCluster(&[GCRA_LIMIT]), Each),
        case(PLAIN_HOT, PlainScript(ScriptOutcome::Allowed), Hot),
        case(GCRA_HOT, Tidegate(&[GCRA_LIMIT]), Hot),
        case(PLAIN_DENIED, PlainScript(ScriptOutcome::Denied), Hot),
        case(GCRA_DENIED, Tidegate(&["{algorithm: gcra, limit: 1, per: 1d}"]), Hot),
        case(LIMITADOR, Limitador, Each),
        case("redis-benchmark INCR, a key each", Incr, Each),
        case("tidegate serve, gRPC, one key", TidegateServer, Hot),
        case("envoyproxy/ratelimit, gRPC, one key", Ratelimit, Hot),
    ]
};

impl Case {
    /// All cases.
    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter()
    }

    /// Finds a case by name. A worker gets its case this way.
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|case| case.name == name)
    }
}
