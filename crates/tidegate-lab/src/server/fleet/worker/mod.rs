//! A process that decides: so many at a time, as often as it is told.
//!
//! It is told a number on a line, and answers with the nanoseconds that so many decisions took, on a line.

#[cfg(feature = "limitador-redis")]
mod limitador;
#[cfg(feature = "peers")]
mod plain_script;
#[cfg(feature = "peers")]
mod rounds;
#[cfg(feature = "peers")]
mod tidegate;

use std::process::ExitCode;

/// A turn is not to end because the machine was busy.
#[cfg(feature = "peers")]
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Decides until it is told nothing more.
#[cfg(feature = "peers")]
pub fn run(name: &str, redis_port: u16) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let worked = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let contender = super::contender::Contender::of_name(name).ok_or("there is no such contender")?;
        runtime.block_on(rounds::work(contender, redis_port))
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
