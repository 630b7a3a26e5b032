//! Decisions, so many at a time.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "limitador-redis")]
use super::limitador::Limitador;
use super::plain_script::PlainScript;
use super::tidegate::Tidegate;
use crate::server::fleet::IN_FLIGHT;
use crate::server::fleet::contender::{By, Contender, KEYS, Keys};
use crate::stopwatch::WallTime;

/// Somebody who decides. The error says what went wrong; a denial is no error.
pub(super) trait Decider: Send + Sync + 'static {
    /// Decides once for this key.
    fn decide(&self, key: &str) -> impl Future<Output = Result<(), String>> + Send;
}

pub(super) async fn work(contender: &Contender, redis_port: u16) -> Result<(), String> {
    match contender.by {
        By::Tidegate(limits) => {
            rounds(Tidegate::connect("redis", redis_port, limits).await?, contender.keys).await
        }
        By::TidegateOnCluster(limits) => {
            rounds(Tidegate::connect("redis-cluster", redis_port, limits).await?, contender.keys).await
        }
        By::PlainScript(over) => rounds(PlainScript::connect(redis_port, over).await?, contender.keys).await,
        #[cfg(feature = "limitador-redis")]
        By::Limitador => rounds(Limitador::connect(redis_port).await?, contender.keys).await,
        #[cfg(not(feature = "limitador-redis"))]
        By::Limitador => {
            Err("built without limitador over Redis (hint: build with --features limitador-redis)".to_owned())
        }
        By::Incr | By::TidegateServer | By::Ratelimit => Err("it needs no worker".to_owned()),
    }
}

async fn rounds(decider: impl Decider, keys: Keys) -> Result<(), String> {
    let decider = Arc::new(decider);
    decider.decide("first").await?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let decisions: u64 =
            line.trim().parse().map_err(|_| format!("`{line}` is no number of decisions"))?;
        let took = round(&decider, keys, decisions).await?;
        println!("{took}");
        std::io::stdout().flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Makes so many decisions and says how many nanoseconds that took.
async fn round(decider: &Arc<impl Decider>, keys: Keys, decisions: u64) -> Result<u64, String> {
    let wall = WallTime::start();
    let next = Arc::new(AtomicU64::new(0));
    let tasks = (0..IN_FLIGHT).map(|_| {
        let (decider, next) = (Arc::clone(decider), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= decisions {
                    return Ok::<(), String>(());
                }
                let number = if keys == Keys::Hot { 0 } else { number % KEYS };
                decider.decide(&format!("user:{number:05}")).await?;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.map_err(|error| error.to_string())??;
    }
    Ok(wall.elapsed_ns())
}
