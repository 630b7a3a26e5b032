//! Three limiters that share a limit over Redis, as three processes would:
//! `cargo run --example fleet --features redis -- redis://127.0.0.1:6379`.

use std::time::Duration;

use tidegate::Limiter;
use tidegate::redis::{RedisLimiter, RedisSettings, RedisStore};

type BoxError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let admitted = run(&url).await?;
    println!("{admitted} of 60 were admitted");
    Ok(())
}

/// How many requests three nodes admit together.
pub async fn run(url: &str) -> Result<usize, BoxError> {
    let mut settings = RedisSettings::try_from(url)?;
    // By default a decision takes at most 10 ms. Then this node's share of the limit decides. Here an exact answer
    // matters more.
    settings.timeout = Duration::from_secs(10);
    let mut nodes: Vec<RedisLimiter> = Vec::new();
    for _ in 0..3 {
        // With `connect_lazy` a program can start while Redis does not answer.
        let redis = RedisStore::connect(settings.clone()).await?;
        nodes.push(Limiter::builder().rule("fleet-example").limit("30 per hour").store(redis).build()?);
    }
    nodes[0].reset("user:42").await?;
    let mut admitted = 0;
    for request in 0..60 {
        let decision = nodes[request % nodes.len()].check("user:42", 1).await;
        if decision.degraded {
            println!("Redis did not answer: this node's share of the limit decided");
        }
        admitted += usize::from(decision.is_allowed());
    }

    // A charge that is refunded because its work failed.
    let reservation = nodes[1].reserve("user:43", 1).await?;
    println!("reserved, {} left", reservation.decision().remaining);
    drop(reservation);
    Ok(admitted)
}
