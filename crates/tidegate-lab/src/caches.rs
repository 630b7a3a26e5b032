//! Caches for the overrides of single keys: what the server has, beside quick_cache and moka.
//!
//! Each holds a million keys with overrides that they share, found by a hash. The server's cache is measured as decisions use it, with the
//! hashes of the key and the filter before it; the others get the hash. The hit rate is that of a cache for a quarter of
//! the keys, with keys by Zipf's law.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Zipf};
use tidegate::Engine;
use tidegate::config::{ConfigStore as _, ConfigWrite, MemoryConfigStore, WriteCondition};
use tidegate::overrides::OverrideCache;
use tidegate::rules::{self, Descriptor, Entry, Request, Ruleset};
use tidegate_core::rules::{
    LimitPosition, OverrideLookup, OverrideScope, OverrideSource as _, OverrideTarget,
};

use crate::measure::ThreadTime;
use crate::process::{load_average, print_machine, resident};
use crate::table::Table;

const KEYS: u64 = 1_000_000;
const LOOKUPS: u64 = 2_000_000;
/// An odd number with its bits spread.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// More than a million records take.
const STORE_BYTES: usize = 1 << 30;
/// Records in one write.
const WRITES: u64 = 10_000;
/// The digits of a key.
const DIGITS: usize = 8;
/// The memory of a key in the server's cache: a slot of 32 bytes, of which three in four are used at most.
const SLOT_BYTES: u64 = 43;
const RULES: &str = "{ domain: api, rules: [ { name: a, key: [user], limit: 1000000 per second } ] }";

/// A cache of what is known about keys.
trait Contender: Sync {
    fn name(&self) -> &'static str;

    /// Looks a key up. Returns whether it was there.
    fn get(&self, key: u64) -> bool;

    fn insert(&self, key: u64);

    /// The memory of all keys, if the cache says it.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// What the other caches keep for a key.
#[derive(Clone)]
struct Known {
    overrides: Arc<[u64; 24]>,
    version: u64,
    check: u64,
}

impl Known {
    fn new(key: u64, overrides: &Arc<[u64; 24]>) -> Self {
        Self { overrides: Arc::clone(overrides), version: key, check: !hash(key) }
    }

    fn is_of(&self, key: u64) -> bool {
        self.check == !hash(key) && self.version == key && self.overrides[0] == 0
    }
}

fn hash(key: u64) -> u64 {
    let mixed = (key + 1).wrapping_mul(MULTIPLIER);
    (mixed ^ mixed >> 32).wrapping_mul(MULTIPLIER)
}

struct QuickCache(quick_cache::sync::Cache<u64, Known>, Arc<[u64; 24]>);

impl Contender for QuickCache {
    fn name(&self) -> &'static str {
        "quick_cache"
    }

    fn get(&self, key: u64) -> bool {
        self.0.get(&hash(key)).is_some_and(|known| known.is_of(key))
    }

    fn insert(&self, key: u64) {
        self.0.insert(hash(key), Known::new(key, &self.1));
    }
}

struct Moka(moka::sync::Cache<u64, Known>, Arc<[u64; 24]>);

impl Contender for Moka {
    fn name(&self) -> &'static str {
        "moka::sync"
    }

    fn get(&self, key: u64) -> bool {
        self.0.get(&hash(key)).is_some_and(|known| known.is_of(key))
    }

    fn insert(&self, key: u64) {
        self.0.insert(hash(key), Known::new(key, &self.1));
    }
}

/// The cache of the server, over a store in memory.
struct Tidegate {
    engine: Engine,
    cache: Arc<OverrideCache>,
    rules: Ruleset,
    scope: OverrideScope,
    position: LimitPosition,
    /// The encoded key of user 0, which ends with the digits.
    key: Vec<u8>,
}

impl Tidegate {
    /// Overrides for all keys, and room for this many of them.
    fn new(keys: u64) -> Self {
        let store = Arc::new(MemoryConfigStore::bounded(STORE_BYTES));
        let record: &[u8] = br#"{"v":1,"overrides":[{"limit":5}]}"#;
        for from in (0..KEYS).step_by(WRITES as usize) {
            let write = |key: u64| ConfigWrite {
                key: format!("o\u{1f}api\u{1f}a\u{1f}user={key:08}").into(),
                value: Some(record.into()),
                condition: WriteCondition::Always,
            };
            let writes: Vec<ConfigWrite> = (from..from + WRITES).map(write).collect();
            expect_ready(store.write(&writes)).expect("there is room");
        }
        let builder = OverrideCache::builder().cache_bytes(keys * SLOT_BYTES);
        let cache = Arc::new(builder.build(store, Arc::new(drop)));
        while expect_ready(cache.follow_changes()).expect("it is in memory").has_more {}
        let domains = rules::parse("rules.yaml", RULES).expect("the rules are valid").domains;
        let rules = Ruleset::compile(domains.clone()).expect("the rules are valid");
        let engine = Engine::new(domains).expect("the rules are valid").with_overrides(Arc::clone(&cache));
        let (scope, position, key) = with_request(0, |request| {
            let matched = rules.matched_limits(request);
            let target = matched.override_targets(&rules).next().expect("the rule has a key");
            (target.scope, target.position, target.key.to_vec())
        });
        Self { engine, cache, rules, scope, position, key }
    }
}

impl Contender for Tidegate {
    fn name(&self) -> &'static str {
        "OverrideCache, with filter and hashes"
    }

    fn get(&self, number: u64) -> bool {
        let mut key = [0; 32];
        let key = &mut key[..self.key.len()];
        key.copy_from_slice(&self.key);
        let mut rest = number;
        for digit in key.iter_mut().rev().take(DIGITS) {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let target = OverrideTarget { scope: self.scope, position: self.position, key };
        let Some(hint) = self.cache.may_have(target) else { return false };
        // Only values that are too long are read from the descriptor.
        let descriptor = Descriptor::new(&[], 1);
        matches!(self.cache.find(&self.rules, target, hint, &descriptor), OverrideLookup::Found(_))
    }

    fn insert(&self, key: u64) {
        with_request(key, |request| drop(self.engine.check(request)));
    }

    fn bytes(&self) -> Option<u64> {
        let stats = self.cache.stats();
        Some(stats.bytes + stats.filter_bytes)
    }
}

/// Only what a look-up costs besides the cache.
struct LoopAlone;

impl Contender for LoopAlone {
    fn name(&self) -> &'static str {
        "the loop alone"
    }

    fn get(&self, key: u64) -> bool {
        std::hint::black_box(hash(key)) != 0
    }

    fn insert(&self, _: u64) {}
}

/// Measures and prints.
pub fn run() {
    print_machine();
    println!("{KEYS} keys, {LOOKUPS} look-ups of random keys in a turn; {}", load_average());
    let overrides = Arc::new([0; 24]);
    let mut table = Table::new(
        "Caches of overrides",
        ["", "ns, 1 thread", "ns, 2 threads", "bytes per key", "hits by Zipf, a quarter fits"],
    );
    let all: [(&dyn Fn(u64) -> Box<dyn Contender>, bool); 4] = [
        (&|_| Box::new(LoopAlone), false),
        (
            &|keys| {
                Box::new(QuickCache(quick_cache::sync::Cache::new(keys as usize), Arc::clone(&overrides)))
            },
            true,
        ),
        (&|keys| Box::new(Moka(moka::sync::Cache::new(keys), Arc::clone(&overrides))), true),
        (&|keys| Box::new(Tidegate::new(keys)), true),
    ];
    for (make, is_cache) in all {
        let before = resident().map_or(0, |resident| resident.now_bytes);
        // Room for more, so that none of them evicts a key.
        let cache = make(2 * KEYS);
        (0..KEYS).for_each(|key| cache.insert(key));
        let after = resident().map_or(0, |resident| resident.now_bytes);
        let bytes = cache.bytes().unwrap_or_else(|| after.saturating_sub(before)) / KEYS;
        let nanos = [1, 2].map(|threads| format!("{:.0}", look_up(&*cache, threads)));
        let name = cache.name();
        drop(cache);
        let [one, two] = nanos;
        let (bytes, hits) = match is_cache {
            true => (bytes.to_string(), format!("{:.1} %", hit_percent(&*make(KEYS / 4)))),
            false => (String::new(), String::new()),
        };
        table.row([name.to_owned(), one, two, bytes, hits]);
    }
    print!("{table}");
}

/// CPU time per look-up of random keys, in nanoseconds: the least of three turns.
fn look_up(cache: &dyn Contender, threads: u64) -> f64 {
    let turn = |thread: u64| {
        let (watch, mut found) = (ThreadTime::start(), 0);
        for number in 0..LOOKUPS {
            let mixed = hash(number + thread * LOOKUPS);
            let key = ((u128::from(mixed) * u128::from(KEYS)) >> 64) as u64;
            found += u64::from(cache.get(key));
        }
        assert_eq!(found, LOOKUPS, "a key is missing");
        watch.elapsed_ns() as f64 / LOOKUPS as f64
    };
    let turns = (0..3).map(|_| {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || turn(thread))).collect();
            let nanos = running.into_iter().map(|turn| turn.join().expect("no look-up panics"));
            nanos.sum::<f64>() / threads as f64
        })
    });
    crate::measure::least(turns)
}

/// The hit rate of keys by Zipf's law, after as many look-ups that fill the cache.
fn hit_percent(cache: &dyn Contender) -> f64 {
    let (mut random, ranks) =
        (SmallRng::seed_from_u64(1), Zipf::new(KEYS as f64, 1.0).expect("the parameters are in range"));
    let mut hits = 0;
    for number in 0..2 * LOOKUPS {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank from one to KEYS")]
        let key = ranks.sample(&mut random) as u64 - 1;
        let is_hit = cache.get(key);
        if !is_hit {
            cache.insert(key);
        }
        hits += u64::from(is_hit && number >= LOOKUPS);
    }
    hits as f64 * 100.0 / LOOKUPS as f64
}

fn with_request<T>(key: u64, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
    let value = format!("{key:08}");
    let entries = [Entry { key: "user", value: &value }];
    use_it(&Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] })
}

/// The output of a future of a store in memory, which answers at once.
fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a store in memory answers at once"),
    }
}
