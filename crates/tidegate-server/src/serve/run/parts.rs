//! What the server consists of besides connections, each in a task of its own, until it drains.

use std::sync::Arc;

use crate::serve::App;

/// Runs a part of the server. Should it end while the rest goes on, the log says so, and `/healthz?verbose` from then on.
pub fn spawn(app: &Arc<App>, part: &str, work: impl Future<Output = ()> + Send + 'static) {
    let watch = EndReporter { app: Arc::clone(app), task: part.to_owned() };
    tokio::spawn(async move {
        let _watch = watch;
        work.await;
    });
}

/// Tells of an end before its time, by a panic too.
struct EndReporter {
    app: Arc<App>,
    task: String,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        let Self { app, task: part } = self;
        if !app.drain.is_draining() {
            app.status.task_ended(part);
            tracing::error!(
                part,
                "a part of the server has ended and the rest goes on without it: this is a bug in Tidegate, please report \
                 it (hint: start the server again)"
            );
        }
    }
}
