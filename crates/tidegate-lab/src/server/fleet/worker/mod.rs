//! A process that decides: so many at a time, as often as it is told.
//!
//! It is told a number on a line, and answers with the nanoseconds that so many decisions took, on a line.

#[cfg(feature = "peers")]
mod limitador;
#[cfg(feature = "peers")]
mod plain_script;
#[cfg(feature = "peers")]
mod tidegate;

use std::process::ExitCode;

#[cfg(feature = "peers")]
use std::io::{BufRead as _, Write as _};
#[cfg(feature = "peers")]
use std::sync::Arc;
#[cfg(feature = "peers")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "peers")]
use super::IN_FLIGHT;
#[cfg(feature = "peers")]
use super::contender::{By, Contender, KEYS, Keys};
#[cfg(feature = "peers")]
use crate::stopwatch::WallTime;

/// Somebody who decides. The error says what went wrong; a denial is no error.
#[cfg(feature = "peers")]
trait Decider: Send + Sync + 'static {
    /// Decides once for this key.
    fn decide(&self, key: &str) -> impl Future<Output = Result<(), String>> + Send;
}

/// Decides until it is told nothing more.
#[cfg(feature = "peers")]
pub fn run(name: &str, redis_port: u16) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let worked = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let contender = Contender::of_name(name).ok_or("there is no such contender")?;
        runtime.block_on(work(contender, redis_port))
    });
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// There are none without the feature `peers`.
#[cfg(not(feature = "peers"))]
pub fn run(_name: &str, _redis_port: u16) -> ExitCode {
    eprintln!("this program was built without others to compare with (hint: build it with --features peers)");
    ExitCode::FAILURE
}

#[cfg(feature = "peers")]
async fn work(contender: &Contender, redis_port: u16) -> Result<(), String> {
    match contender.by {
        By::Tidegate(limit) => {
            rounds(tidegate::Tidegate::connect(redis_port, limit).await?, contender.keys).await
        }
        By::PlainScript(over) => {
            rounds(plain_script::PlainScript::connect(redis_port, over).await?, contender.keys).await
        }
        By::Limitador => rounds(limitador::Limitador::connect(redis_port).await?, contender.keys).await,
        By::Incr | By::TidegateServer | By::Ratelimit => Err("it needs no worker".to_owned()),
    }
}

#[cfg(feature = "peers")]
async fn rounds(decider: impl Decider, keys: Keys) -> Result<(), String> {
    let decider = Arc::new(decider);
    decider.decide("first").await?;
    let mut lines = std::io::stdin().lock().lines();
    println!("ready");
    while let Some(line) = lines.next() {
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
#[cfg(feature = "peers")]
async fn round(decider: &Arc<impl Decider>, keys: Keys, decisions: u64) -> Result<u64, String> {
    let wall = WallTime::start();
    let next = Arc::new(AtomicU64::new(0));
    let tasks = (0..IN_FLIGHT).map(|_| {
        let (decider, next) = (Arc::clone(decider), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= decisions {
                    return Ok(());
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
