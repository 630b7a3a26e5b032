//! From settings to a server that runs, and to its end.

use std::process::ExitCode;
use std::sync::Arc;

use tidegate::Engine;
use tidegate::rules;
use tokio_util::task::TaskTracker;

use super::grpc::Grpc;
use super::http::Http;
use super::listening::Listener;
use super::resp::Resp;
use super::settings::Bounds;
use super::{App, ServeArgs};
use crate::output::{self, Failure, Verdict};

const CONNECTIONS_MAX: usize = 10_000;

/// Runs the server until it is told to stop.
pub fn main(args: ServeArgs) -> ExitCode {
    output::exit(run(args))
}

fn run(args: ServeArgs) -> Result<Verdict, Failure> {
    let loaded = match rules::load(&args.rules) {
        Ok(loaded) => loaded,
        Err(report) => {
            output::show(&report);
            return Ok(Verdict::Problems);
        }
    };
    let engine = Engine::new(loaded.domains).map_err(|error| Failure::problem(error.to_string()))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Failure::usage(error.to_string()))?;
    runtime.block_on(serve(args, App::new(Arc::new(engine))))
}

async fn serve(args: ServeArgs, app: App) -> Result<Verdict, Failure> {
    let (app, tasks) = (Arc::new(app), TaskTracker::new());
    macro_rules! listen {
        ($address:expr, $name:literal, $serves:expr) => {
            let bound = Listener::bind(&$address).await.map_err(|error| Failure::usage(error.to_string()))?;
            if let Some(listener) = bound {
                output::print(&format!("{} {}\n", $name, listener.address()))?;
                tokio::spawn(listener.run(Arc::clone(&app), $serves, tasks.clone(), CONNECTIONS_MAX));
            }
        };
    }
    let bounds = Bounds::default();
    listen!(args.http, "http", Http::new(Arc::clone(&app), bounds));
    listen!(args.grpc, "grpc", Grpc::new(Arc::clone(&app)));
    listen!(args.resp, "resp", Resp::new(Arc::clone(&app)));
    app.drain.begun().await;
    Ok(Verdict::Fine)
}
