//! Makes decisions, [`IN_FLIGHT`] at a time.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "limitador-redis")]
use super::limitador::Limitador;
use super::plain_script::PlainScript;
use super::tidegate::Tidegate;
use crate::fleet::IN_FLIGHT;
use crate::fleet::case::{Case, DecidedBy, KEYS, Keys};
use crate::measure::WallTime;

/// A client of Redis that decides. A denial is not an error.
pub(super) trait Decider: Send + Sync + 'static {
    /// Makes one decision.
    fn decide(&self, key: &str) -> impl Future<Output = Result<(), String>> + Send;
}

pub(super) async fn work(case: &Case, redis_port: u16) -> Result<(), String> {
    match case.decided_by {
        DecidedBy::Tidegate(limits) => {
            rounds(Tidegate::connect("redis", redis_port, limits).await?, case.keys).await
        }
        DecidedBy::TidegateOnCluster(limits) => {
            rounds(Tidegate::connect("redis-cluster", redis_port, limits).await?, case.keys).await
        }
        DecidedBy::PlainScript(outcome) => {
            rounds(PlainScript::connect(redis_port, outcome).await?, case.keys).await
        }
        #[cfg(feature = "limitador-redis")]
        DecidedBy::Limitador => rounds(Limitador::connect(redis_port).await?, case.keys).await,
        #[cfg(not(feature = "limitador-redis"))]
        DecidedBy::Limitador => {
            Err("built without limitador on Redis (hint: build with --features limitador-redis)".to_owned())
        }
        DecidedBy::Incr | DecidedBy::TidegateServer | DecidedBy::Ratelimit => {
            Err("it needs no worker".to_owned())
        }
    }
}

async fn rounds(decider: impl Decider, keys: Keys) -> Result<(), String> {
    let decider = Arc::new(decider);
    decider.decide("first").await?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let decisions: u64 =
            line.trim().parse().map_err(|_| format!("`{line}` is not a number of decisions"))?;
        let took_ns = round(&decider, keys, decisions).await?;
        println!("{took_ns}");
        std::io::stdout().flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Makes the decisions and returns how many nanoseconds they took.
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
