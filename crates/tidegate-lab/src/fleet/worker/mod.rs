//! A process that makes decisions.
//!
//! It reads the number of decisions from a line of its input, makes them, and prints the nanoseconds that they took.

#[cfg(feature = "peers")]
mod decider;
#[cfg(feature = "limitador-redis")]
mod limitador;
#[cfg(feature = "peers")]
mod plain_script;
#[cfg(feature = "peers")]
mod tidegate;

use std::process::ExitCode;

/// Long enough that a busy machine does not end a turn.
#[cfg(feature = "peers")]
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Makes decisions until the input ends.
#[cfg(feature = "peers")]
pub fn run(name: &str, redis_port: u16) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let worked = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let case = super::case::Case::by_name(name).ok_or("there is no such case")?;
        runtime.block_on(decider::work(case, redis_port))
    });
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Fails: workers need the feature `peers`.
#[cfg(not(feature = "peers"))]
pub fn run(_name: &str, _redis_port: u16) -> ExitCode {
    eprintln!("this program was built without workers (hint: build it with --features peers)");
    ExitCode::FAILURE
}
