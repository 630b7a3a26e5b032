//! Follows the rules in the config store.

use std::sync::Arc;
use std::time::Duration;

use crate::serve::App;
use crate::serve::stored_rules::Refreshed;

/// How often the config store is asked for other rules.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the rules until the server drains.
pub async fn watch(app: Arc<App>) {
    let Some(stored) = &app.stored_rules else { return };
    let mut interval = tokio::time::interval(POLL_INTERVAL);
    let mut is_away = false;
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => {}
        }
        let (refreshed, read) = stored.refresh(app.status.now()).await;
        match read {
            Ok(()) if std::mem::take(&mut is_away) => tracing::info!("the rules can be read again"),
            Ok(()) => {}
            Err(error) if !std::mem::replace(&mut is_away, true) => {
                tracing::warn!("cannot read the rules: {error}; the last known rules stay active");
            }
            Err(_) => {}
        }
        if refreshed == Refreshed::Changed {
            // The reload task logs the result.
            let _ = app.reloads.reload().await;
        }
    }
}
