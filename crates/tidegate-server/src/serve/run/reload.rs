//! Rules and certificates are looked at again: from time to time, by SIGHUP, and when an operator asks.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate::SystemClock;
use tidegate::rules::{Reload, Reloader, Report};
use tidegate::store::NodeStore;
use tidegate_core::text::truncated;
use tokio::signal::unix::Signal;
use tokio::time::Instant;

use crate::serve::App;
use crate::serve::listening::{CertificateReload, Tls};
use crate::serve::reloads::ReloadResult;
use crate::serve::status::{CertificateStatus, OngoingFailure};

/// Looking at many files takes a while. The pause after it is this many times as long, so that it takes no more than
/// about a tenth of one processor...
const PAUSE_FACTOR: u32 = 10;
/// ...but no longer than this, for an edit has to take effect within five seconds.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// The most of a report that goes into the log, in bytes.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// The files that may change while the server runs.
#[derive(Default)]
pub struct WatchedFiles {
    /// None if the rules are the built-in example.
    pub reloader: Option<Reloader<SystemClock, NodeStore>>,
    pub tls: Option<Arc<Tls>>,
}

/// Has files looked at until the server drains.
pub async fn watch(
    app: Arc<App>,
    mut look: impl FnMut() -> ReloadResult + Send + 'static,
    every: Duration,
    mut hangups: Option<Signal>,
) {
    let Some(mut asked) = app.reloads.take_receiver() else { return };
    let mut pause = every;
    loop {
        let answer = tokio::select! {
            () = app.drain.wait() => return,
            () = tokio::time::sleep(pause) => None,
            () = next_hangup(&mut hangups) => {
                tracing::info!("SIGHUP: rules and certificates are looked at");
                None
            }
            Some(answer) = asked.recv() => Some(answer),
        };
        let began = Instant::now();
        // It reads files, and compiles rules: not for a thread that serves connections.
        let looked = tokio::task::spawn_blocking(move || {
            let reloaded = look();
            (look, reloaded)
        });
        let reloaded;
        (look, reloaded) = match looked.await {
            Ok(looked) => looked,
            Err(panicked) => {
                tracing::error!(%panicked, "rules and certificates are looked at no more");
                return;
            }
        };
        pause = every.max((began.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
        record_rules(&app, &reloaded.rules);
        record_certificate(&app, &reloaded.certificate);
        if let Some(answer) = answer {
            // Who asked may have gone away.
            let _ = answer.send(with_ongoing_failures(&app, reloaded));
        }
    }
}

impl WatchedFiles {
    /// Looks at all of them, and takes what has changed into use.
    pub fn reload(&mut self) -> ReloadResult {
        ReloadResult {
            rules: self.reloader.as_mut().map_or(Reload::Unchanged, Reloader::reload),
            certificate: self.tls.as_ref().map_or(CertificateReload::Unchanged, |tls| tls.reload()),
        }
    }
}

/// Files that are as wrong as they were before are no news to the log, but to who asks.
fn with_ongoing_failures(app: &App, mut reloaded: ReloadResult) -> ReloadResult {
    if let (Reload::Unchanged, Some(failed)) = (&reloaded.rules, &app.status.rules().failure) {
        reloaded.rules = Reload::Rejected(failed.error.clone());
    }
    let certificate = app.status.certificate();
    let failed = certificate.as_ref().and_then(|certificate| certificate.failure.as_ref());
    if let (CertificateReload::Unchanged, Some(failed)) = (&reloaded.certificate, failed) {
        reloaded.certificate = CertificateReload::Kept(failed.error.clone());
    }
    reloaded
}

async fn next_hangup(hangups: &mut Option<Signal>) {
    match hangups {
        Some(hangups) => _ = hangups.recv().await,
        None => std::future::pending().await,
    }
}

fn record_rules(app: &App, reload: &Reload) {
    match reload {
        Reload::Unchanged => {}
        Reload::Replaced(report) => {
            app.status.rules_reloaded(&app.engine.rules());
            let now = app.status.rules();
            let (rules, domains) = (now.rules, now.domains.len());
            if report.warnings() > 0 {
                tracing::warn!(
                    rules,
                    domains,
                    "other rules are in force, with warnings:\n{}",
                    shorten_report(report)
                );
            } else {
                tracing::info!(rules, domains, "other rules are in force");
            }
        }
        Reload::Rejected(report) => {
            tracing::error!("the rules cannot be used, and those before go on:\n{}", shorten_report(report));
            app.status.rules_rejected(report.clone());
        }
    }
}

fn record_certificate(app: &App, reload: &CertificateReload) {
    let Some(old) = app.status.certificate() else { return };
    let (old, at) = (CertificateStatus::clone(&old), app.status.now());
    match reload {
        CertificateReload::Unchanged => {}
        CertificateReload::Replaced => {
            tracing::info!(path = %old.path.display(), "another certificate is in use");
            let replaced = old.replacements + 1;
            app.status.set_certificate(CertificateStatus { loaded_at: at, replacements: replaced, failure: None, ..old });
        }
        CertificateReload::Kept(error) => {
            tracing::error!("the certificate cannot be used, and the one before stays: {error}");
            let failure = Some(OngoingFailure::following(old.failure.as_ref(), at, error.clone()));
            app.status.set_certificate(CertificateStatus { rejections: old.rejections + 1, failure, ..old });
        }
    }
}

/// A report as the log takes it.
fn shorten_report(report: &Report) -> String {
    let mut text = report.to_string();
    if text.len() > REPORT_BYTES_MAX {
        let kept = truncated(&text, REPORT_BYTES_MAX).len();
        let cut = text.len() - kept;
        text.truncate(kept);
        let _ = write!(text, "... and {cut} bytes more (hint: `tidegate check` shows all of it)");
    }
    text
}

#[cfg(test)]
mod tests {

    use super::super::parts;
    use super::*;

    /// Longer than anything here takes, on any machine.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Who asks for a reload is told, and so is who looks at the status.
    #[tokio::test]
    async fn a_panic_in_a_reload_is_reported() {
        let app = Arc::new(App::in_memory(Vec::new()).unwrap());
        let mut looks = 0;
        let look = move || {
            looks += 1;
            assert!(looks < 3, "on purpose, in a test");
            ReloadResult { rules: Reload::Unchanged, certificate: CertificateReload::Unchanged }
        };
        parts::spawn(&app, "reloads", watch(Arc::clone(&app), look, Duration::from_secs(3_600), None));
        for _ in 0..2 {
            app.reloads.reload().await.expect("it looks");
        }
        assert_eq!(*app.status.ended_tasks(), []);
        app.reloads.reload().await.expect_err("it does not look any more");
        let ended = async {
            while app.status.ended_tasks().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("it is said");
        assert_eq!(app.status.ended_tasks()[0].name, "reloads");
        app.reloads.reload().await.expect_err("nor later");
    }

    #[tokio::test]
    async fn a_drain_is_not_reported_as_an_ended_task() {
        let app = Arc::new(App::in_memory(Vec::new()).unwrap());
        let look = || ReloadResult { rules: Reload::Unchanged, certificate: CertificateReload::Unchanged };
        parts::spawn(&app, "reloads", watch(Arc::clone(&app), look, Duration::from_secs(3_600), None));
        app.reloads.reload().await.expect("it looks");
        app.drain.begin();
        let ended = async { while app.reloads.reload().await.is_ok() {} };
        tokio::time::timeout(DEADLINE, ended).await.expect("it ends");
        assert_eq!(*app.status.ended_tasks(), []);
    }
}
