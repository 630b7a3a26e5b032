//! A ring of independent servers: plans whose keys are on several of them.

use tidegate::store::Counter;

use super::server::{RedisServer, wait_until};
use super::setup::{Cacheable, StoreExt, charge, counter, decision, plan, remaining, store, stores};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_across_a_ring_are_limited_exactly() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address()).collect();
    let url = format!("redis+ring://{}", addresses.join(","));
    let stores = stores(&url, 2).await;
    let wide: &'static Counter = Box::leak(Box::new(counter("wide", "1000 per 1000d")));
    let narrow: &'static Counter = Box::leak(Box::new(counter("narrow", "20 per 1000d")));
    // With this many users, some are on another server than the shared key.
    let tasks: Vec<_> = (0..40)
        .map(|user| {
            let store = stores[user % 2].clone();
            tokio::spawn(async move {
                let user: &'static str = Box::leak(format!("user:{user}").into_boxed_str());
                let pending =
                    store.check(&plan(&[charge(user, wide, 1), charge("all", narrow, 1)]), Cacheable::ALL);
                (user, decision(pending.await).is_allowed())
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        let (user, is_allowed) = task.await.unwrap();
        admitted += usize::from(is_allowed);
        let left = if is_allowed { 999 } else { 1000 };
        wait_until(async || (remaining(&stores[0], user, wide).await == left).then_some(())).await;
    }
    assert_eq!(admitted, 20);
    let splits: u64 = stores.iter().map(|store| store.stats().splits).sum();
    assert!(splits > 0 && splits < 40, "{splits}");
    // A later call finds the same keys on the same servers.
    assert_eq!(remaining(&store(&url).await, "all", narrow).await, 0);
}
