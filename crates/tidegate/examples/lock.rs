//! A lock that a fleet shares over Redis: `cargo run --example lock --features redis -- redis://127.0.0.1:6379`.

use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::{FencingGuard, Locks};

type BoxError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    run(&url).await
}

/// Two processes write one file, one after the other.
pub async fn run(url: &str) -> Result<(), BoxError> {
    let ttl = Duration::from_secs(30);
    let mut settings = RedisSettings::try_from(url)?;
    // By default Redis has 10 ms to answer, because decisions about requests need that. A lock can wait longer.
    settings.timeout = Duration::from_secs(10);
    let one = Locks::with_store(RedisStore::connect(settings.clone()).await?);
    let other = Locks::with_store(RedisStore::connect(settings).await?);
    // The protected resource checks fencing tokens, so that a holder that was paused for too long is refused.
    let file = FencingGuard::default();

    let first = one.lock("example-file", ttl).await?;
    file.admit(first.fencing_token())?;
    println!("the first process writes, with the fencing token {}", first.fencing_token());
    match other.try_lock("example-file", ttl).await {
        Ok(_) => return Err("two processes hold one lock".into()),
        Err(refused) => println!("the other one does not get the lock: {refused}"),
    }

    let waiting = other.lock("example-file", ttl);
    drop(first);
    let second = waiting.await?;
    file.admit(second.fencing_token())?;
    println!("then the other one writes, with {}", second.fencing_token());
    println!("and releases it: {}", second.release().await?.as_str());
    Ok(())
}
