//! Reloads rules and certificates: periodically, on SIGHUP, and on request of an operator.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate::SystemClock;
use tidegate::rules::{CompiledLimit, Reload, Reloader, Report, Ruleset};
use tidegate::store::NodeStore;
use tidegate_core::text::truncated;
use tokio::signal::unix::Signal;
use tokio::time::Instant;

use super::startup_warnings::StartupWarning;
use crate::serve::App;
use crate::serve::listen::{CertificateReload, Tls};
use crate::serve::reload_handle::ReloadResult;
use crate::serve::status::{CertificateStatus, OngoingFailure};

/// The pause after a reload is at least this many times as long as the reload took, so that many files cost no more
/// than about a tenth of one processor...
const PAUSE_FACTOR: u32 = 10;
/// ...but no longer than this, because an edit must take effect within five seconds.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Longer reports are cut in the log.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// The files that are checked for changes.
#[derive(Default)]
pub struct WatchedFiles {
    /// `None` for the built-in example.
    pub reloader: Option<Reloader<SystemClock, NodeStore>>,
    pub tls: Option<Arc<Tls>>,
}

/// Reloads files until the server drains.
pub async fn watch(
    app: Arc<App>,
    mut reload: impl FnMut() -> ReloadResult + Send + 'static,
    every: Duration,
    mut hangups: Option<Signal>,
) {
    let Some(mut requests) = app.reloads.take_receiver() else { return };
    let mut pause = every;
    let mut keys = limits_of_keys(&app.engine.rules());
    loop {
        let reply_to = tokio::select! {
            () = app.drain.wait() => return,
            () = tokio::time::sleep(pause) => None,
            () = next_hangup(&mut hangups) => {
                tracing::info!("SIGHUP: reloading rules and certificates");
                None
            }
            Some(reply_to) = requests.recv() => Some(reply_to),
        };
        let start = Instant::now();
        // Reading files and compiling rules would block a thread that serves connections.
        let task = tokio::task::spawn_blocking(move || {
            let result = reload();
            (reload, result)
        });
        let result;
        (reload, result) = match task.await {
            Ok(reload_and_result) => reload_and_result,
            Err(panicked) => {
                tracing::error!(%panicked, "rules and certificates are not reloaded any more");
                return;
            }
        };
        pause = every.max((start.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX));
        record_rules(&app, &result.rules);
        if let Reload::Replaced(_) = &result.rules {
            let rules = app.engine.rules();
            keys = warn_about_unnamed_overrides(&app, &keys, &rules);
        }
        if let (Reload::Replaced(_), Some(stored_rules)) = (&result.rules, &app.stored_rules) {
            stored_rules.keep_copy().await;
        }
        record_certificate(&app, &result.certificate);
        if let Some(reply_to) = reply_to {
            // The receiver may already be gone; ignore the error.
            let _ = reply_to.send(with_ongoing_failures(&app, result));
        }
    }
}

impl WatchedFiles {
    /// Reloads the files that have changed.
    pub fn reload(&mut self) -> ReloadResult {
        ReloadResult {
            rules: self.reloader.as_mut().map_or(Reload::Unchanged, Reloader::reload),
            certificate: self.tls.as_ref().map_or(CertificateReload::Unchanged, |tls| tls.reload()),
        }
    }
}

/// Adds the errors of files that have not changed. The log does not repeat them, but the reply to a reload call does.
fn with_ongoing_failures(app: &App, mut result: ReloadResult) -> ReloadResult {
    if let (Reload::Unchanged, Some(failure)) = (&result.rules, &app.status.rules().failure) {
        result.rules = Reload::Rejected(failure.error.clone());
    }
    let certificate = app.status.certificate();
    let failure = certificate.as_ref().and_then(|certificate| certificate.failure.as_ref());
    if let (CertificateReload::Unchanged, Some(failure)) = (&result.certificate, failure) {
        result.certificate = CertificateReload::Kept(failure.error.clone());
    }
    result
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
            if let Some(fleet) = &app.fleet {
                fleet.modes.return_leases(app.status.now());
            }
            app.status.rules_reloaded(&app.engine.rules());
            StartupWarning::log_mode_without_store(app);
            let status = app.status.rules();
            let (rules, domains) = (status.rules, status.domains.len());
            if report.warnings() > 0 {
                tracing::warn!(
                    rules,
                    domains,
                    "new rules are active, with warnings:\n{}",
                    shorten_report(report)
                );
            } else if report.skipped_count() > 0 {
                tracing::warn!(
                    rules,
                    domains,
                    "new rules are active, and some files are not loaded:\n{}",
                    shorten_report(report)
                );
            } else {
                tracing::info!(rules, domains, "new rules are active");
            }
        }
        Reload::Rejected(report) => {
            tracing::error!(
                "the rules have errors, so the previous rules stay active:\n{}",
                shorten_report(report)
            );
            app.status.rules_rejected(report.clone());
        }
    }
}

/// The keys of rules, by domain, oldest name of the rule and attributes: whether several limits have the key.
type LimitsOfKeys = BTreeMap<[String; 3], bool>;

fn limits_of_keys(rules: &Ruleset) -> LimitsOfKeys {
    let limits = rules.domains().flat_map(|domain| {
        let rules = domain.overridable_rules();
        rules.flat_map(move |rule| rule.limits.iter().map(move |limit| (domain.name(), rule.identity, limit)))
    });
    let of_limit = |(domain, rule, limit): (&str, &str, &CompiledLimit)| {
        let parts: Vec<String> = limit.limit().key.parts().iter().map(ToString::to_string).collect();
        ([domain.to_owned(), rule.to_owned(), parts.join(", ")], limit.is_one_of_several())
    };
    limits.map(of_limit).collect()
}

/// Warns if overrides that name no limit have lost their meaning, because another limit of the rule has got the same key.
fn warn_about_unnamed_overrides(app: &App, before: &LimitsOfKeys, rules: &Ruleset) -> LimitsOfKeys {
    let now = limits_of_keys(rules);
    if app.engine.overrides().is_some_and(|overrides| !overrides.is_empty()) {
        let changed = now.iter().filter(|(key, several)| **several && before.get(*key) == Some(&false));
        for ([domain, rule, parts], _) in changed {
            tracing::warn!(
                domain,
                rule,
                "several limits have the key [{parts}] now, so overrides of its keys that name no limit no longer change limit, \
                 window or burst (hint: set them again with --limit-name)"
            );
        }
    }
    now
}

fn record_certificate(app: &App, reload: &CertificateReload) {
    let Some(old) = app.status.certificate() else { return };
    let (old, at) = (CertificateStatus::clone(&old), app.status.now());
    match reload {
        CertificateReload::Unchanged => {}
        CertificateReload::Replaced => {
            tracing::info!(path = %old.path.display(), "a new certificate is in use");
            let replacements = old.replacements + 1;
            app.status.set_certificate(CertificateStatus {
                loaded_at: at,
                replacements,
                failure: None,
                ..old
            });
        }
        CertificateReload::Kept(error) => {
            tracing::error!("the certificate cannot be used, so the previous one stays in use: {error}");
            let failure = Some(OngoingFailure::following(old.failure.as_ref(), at, error.clone()));
            app.status.set_certificate(CertificateStatus { rejections: old.rejections + 1, failure, ..old });
        }
    }
}

/// A report, cut for the log.
fn shorten_report(report: &Report) -> String {
    let mut text = report.to_string();
    if text.len() > REPORT_BYTES_MAX {
        let kept_bytes = truncated(&text, REPORT_BYTES_MAX).len();
        let cut = text.len() - kept_bytes;
        text.truncate(kept_bytes);
        let _ = write!(text, "... and {cut} more bytes (hint: `tidegate check` shows the whole report)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::run::tasks;

    /// Longer than anything here takes on any machine.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Both the reload request and the status report it.
    #[tokio::test]
    async fn a_panic_in_a_reload_is_reported() {
        let app = Arc::new(App::in_memory(Vec::new()).unwrap());
        let mut calls = 0;
        let reload = move || {
            calls += 1;
            assert!(calls < 3, "on purpose, in a test");
            ReloadResult { rules: Reload::Unchanged, certificate: CertificateReload::Unchanged }
        };
        tasks::spawn(&app, "reloads", watch(Arc::clone(&app), reload, Duration::from_secs(3_600), None));
        for _ in 0..2 {
            app.reloads.reload().await.expect("the reload task runs");
        }
        assert_eq!(*app.status.ended_tasks(), []);
        app.reloads.reload().await.expect_err("the task has ended");
        let ended = async {
            while app.status.ended_tasks().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("the status reports it");
        assert_eq!(app.status.ended_tasks()[0].name, "reloads");
        app.reloads.reload().await.expect_err("still ended");
    }

    #[tokio::test]
    async fn a_drain_is_not_reported_as_an_ended_task() {
        let app = Arc::new(App::in_memory(Vec::new()).unwrap());
        let reload = || ReloadResult { rules: Reload::Unchanged, certificate: CertificateReload::Unchanged };
        tasks::spawn(&app, "reloads", watch(Arc::clone(&app), reload, Duration::from_secs(3_600), None));
        app.reloads.reload().await.expect("the reload task runs");
        app.drain.begin();
        let ended = async { while app.reloads.reload().await.is_ok() {} };
        tokio::time::timeout(DEADLINE, ended).await.expect("the reload task ends");
        assert_eq!(*app.status.ended_tasks(), []);
    }
}
