//! Follows the rules in the config store.

use std::mem::{self, Discriminant};
use std::sync::Arc;
use std::time::Duration;

use crate::serve::App;
use crate::serve::stored_rules::{Refreshed, RulesFault};

/// How often the config store is asked for other rules.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the rules until the server drains.
pub async fn watch(app: Arc<App>) {
    let Some(stored) = &app.stored_rules else { return };
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    // The same fault is logged once.
    let mut fault_before: Option<Discriminant<RulesFault>> = None;
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        let (refreshed, read) = stored.refresh(app.status.now()).await;
        let fault = read.err();
        app.status.set_stored_rules_failure(fault.as_ref());
        let kind = fault.as_ref().map(mem::discriminant);
        if mem::replace(&mut fault_before, kind) != kind {
            log(fault.as_ref());
        }
        stored.retry_copy().await;
        if refreshed == Refreshed::Changed {
            // The reload task logs the result.
            let _ = app.reloads.reload().await;
        }
    }
}

fn log(fault: Option<&RulesFault>) {
    match fault {
        None => tracing::info!("the rules can be read again"),
        Some(RulesFault::Lost) => tracing::error!("{}; the last known rules stay active", RulesFault::Lost),
        Some(fault) => tracing::warn!("cannot read the rules: {fault}; the last known rules stay active"),
    }
}
