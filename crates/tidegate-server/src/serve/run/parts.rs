//! What the server consists of besides connections, each in a task of its own, until it drains.

use std::sync::Arc;

use crate::serve::App;

/// Runs a part of the server. Should it end while the rest goes on, the log says so, and `/healthz?verbose` from then on.
pub fn run(app: &Arc<App>, part: &str, work: impl Future<Output = ()> + Send + 'static) {
    let watch = Watch { app: Arc::clone(app), part: part.to_owned() };
    tokio::spawn(async move {
        let _watch = watch;
        work.await;
    });
}

/// Tells of an end before its time, by a panic too.
struct Watch {
    app: Arc<App>,
    part: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Self { app, part } = self;
        if !app.drain.is_on() {
            app.status.part_ended(part);
            tracing::error!(
                part,
                "a part of the server has ended and the rest goes on without it: this is a bug in Tidegate, please report \
                 it (hint: start the server again)"
            );
        }
    }
}
