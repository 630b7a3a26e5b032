//! A lock that a fleet shares over Redis: `cargo run --example lock --features redis -- redis://127.0.0.1:6379`.

use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::{FenceGate, Locks};

type Failed = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    run(&url).await
}

/// Two processes write one file, one after the other.
pub async fn run(url: &str) -> Result<(), Failed> {
    let ttl = Duration::from_secs(30);
    let mut settings = RedisSettings::try_from(url)?;
    // By default Redis has 10 ms to answer, as decisions about requests need. A lock can wait for longer.
    settings.timeout = Duration::from_secs(10);
    let one = Locks::over(RedisStore::connect(settings.clone()).await?);
    let other = Locks::over(RedisStore::connect(settings).await?);
    // What is protected looks at fencing tokens, so that a holder that was paused for too long is kept out.
    let file = FenceGate::default();

    let first = one.lock("example-file", ttl).await?;
    file.admit(first.fence())?;
    println!("the first process writes, with the fencing token {}", first.fence());
    match other.try_lock("example-file", ttl).await {
        Ok(_) => return Err("two processes hold one lock".into()),
        Err(refused) => println!("the other one does not get it: {refused}"),
    }

    let waiting = other.lock("example-file", ttl);
    drop(first);
    let second = waiting.await?;
    file.admit(second.fence())?;
    println!("then the other one writes, with {}", second.fence());
    println!("and gives it back: {}", second.release().await?.as_str());
    Ok(())
}
