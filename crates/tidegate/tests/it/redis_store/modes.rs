//! The modes `leased` and `eventual` over a real Redis.

use std::sync::Arc;

use tidegate::store::{Ask, Charge, Counter, Mode, ModeStore, Op, Store, StorePolicy};
use tidegate::{Clock as _, MemoryStore, OutcomeKind, SystemClock};

use super::server::RedisServer;
use super::setup::{counter, plan, remaining, stores};

const NODES: usize = 4;
/// More than the limit.
const REQUESTS: usize = 1_500;
const LIMIT: u64 = 1_000;

type RedisModes = tidegate::store::Fallback<ModeStore<tidegate::redis::RedisStore>>;

async fn nodes(server: &RedisServer) -> Vec<RedisModes> {
    let modes = |store| {
        let modes = ModeStore::new(store, SystemClock::new()).with_own_ticks();
        tidegate::store::Fallback::new(modes, Arc::new(MemoryStore::bounded(1 << 20)))
    };
    stores(&server.url(), NODES).await.into_iter().map(modes).collect()
}

async fn is_admitted(node: &RedisModes, counter: &Counter, mode: Mode) -> bool {
    let policy = StorePolicy { mode, ..StorePolicy::DEFAULT };
    let response = {
        let plan = plan(&[Charge { policy, ..Charge::new(b"hot", counter, 1) }]);
        node.ask(&Ask { op: Op::Check, plan: &plan, now: SystemClock::new().now(), deadline: None })
    };
    response.reply().await.unwrap().outcomes[0].kind == OutcomeKind::Allowed
}

/// All nodes together, with requests in parallel.
async fn admitted(nodes: &[RedisModes], counter: &Counter, mode: Mode) -> u64 {
    let tasks: Vec<_> = (0..NODES * 4)
        .map(|task| {
            let (node, counter) = (nodes[task % NODES].clone(), counter.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..REQUESTS / (NODES * 4) + 1 {
                    admitted += u64::from(is_admitted(&node, &counter, mode).await);
                }
                admitted
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await.unwrap();
    }
    total
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_fleet_add_up_to_the_limit() {
    let server = RedisServer::start();
    let nodes = nodes(&server).await;
    for algorithm in ["fixed_window", "gcra", "token_bucket", "sliding_window"] {
        let counter = counter(algorithm, &format!("{{algorithm: {algorithm}, limit: {LIMIT}, per: 1000d}}"));
        let admitted = admitted(&nodes, &counter, Mode::leased(counter.limit())).await;
        // Units that a node holds are given back, and then the rest is admitted.
        let mut total = admitted;
        for node in nodes.iter().cycle().take(NODES * 400) {
            node.shared().return_leases(SystemClock::new().now());
            total += u64::from(is_admitted(node, &counter, Mode::leased(counter.limit())).await);
            if total == LIMIT {
                break;
            }
        }
        // What flows into a bucket while a lease is held is not given back.
        let least = if algorithm.ends_with("window") { LIMIT } else { LIMIT - 1 };
        assert!((least..=LIMIT).contains(&total), "{algorithm}: {total}, {admitted} at first");
        assert!(!is_admitted(&nodes[0], &counter, Mode::leased(counter.limit())).await, "{algorithm}");
    }
    let stats = nodes[0].shared().stats();
    assert!(stats.leased_in_memory > 0 && stats.refills > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_a_fleet_add_up_in_redis() {
    let server = RedisServer::start();
    let nodes = nodes(&server).await;
    for algorithm in ["fixed_window", "gcra", "token_bucket", "sliding_window"] {
        let counter = counter(algorithm, &format!("{{algorithm: {algorithm}, limit: {LIMIT}, per: 1000d}}"));
        let admitted = admitted(&nodes, &counter, Mode::eventual()).await;
        assert!(admitted >= LIMIT, "{algorithm}: {admitted}");
        // All units arrive, also those beyond the limit.
        loop {
            nodes.iter().for_each(|node| node.shared().return_leases(SystemClock::new().now()));
            let stats: Vec<_> = nodes.iter().map(|node| node.shared().stats()).collect();
            if stats.iter().all(|stats| stats.units_pending == 0) {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(remaining(nodes[0].shared().shared(), "hot", &counter).await, 0, "{algorithm}");
        let debts: Vec<u64> = nodes.iter().map(|node| node.shared().stats().units_debt).collect();
        if algorithm != "sliding_window" {
            assert!(
                debts.iter().any(|debt| *debt >= (admitted - LIMIT).saturating_sub(1)),
                "{algorithm}: {debts:?}"
            );
        }
    }
    let stats = nodes[0].shared().stats();
    assert!(stats.eventual_in_memory > 0 && stats.pushes > 0, "{stats:?}");
}
