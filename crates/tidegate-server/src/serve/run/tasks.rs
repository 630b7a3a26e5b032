//! Background tasks of the server, which run until it drains.

use std::sync::Arc;

use crate::serve::App;

/// Spawns a background task. If it ends before the drain, the log and `/healthz?verbose` report it.
pub fn spawn(app: &Arc<App>, name: &str, task: impl Future<Output = ()> + Send + 'static) {
    let reporter = EndReporter { app: Arc::clone(app), name: name.to_owned() };
    tokio::spawn(async move {
        let _reporter = reporter;
        task.await;
    });
}

/// Reports on drop that the task ended too early, also after a panic.
struct EndReporter {
    app: Arc<App>,
    name: String,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        let Self { app, name } = self;
        if !app.drain.is_draining() {
            app.status.task_ended(name);
            tracing::error!(
                part = name,
                "a background task has ended and the server runs on without it: this is a bug in Tidegate, please report \
                 it (hint: restart the server)"
            );
        }
    }
}
