//! Asking for rules and certificates to be read again, from wherever that is asked for.

use std::sync::{Mutex, PoisonError};

use tidegate::rules::Reload;
use tokio::sync::{mpsc, oneshot};

use super::listening::CertificateReload;

/// How many may have asked and not been answered yet. Whoever comes after them waits.
const PENDING_RELOADS_MAX: usize = 16;

/// Hands what is asked for to whoever reads files, and what became of it back.
pub struct ReloadHandle {
    sender: mpsc::Sender<oneshot::Sender<ReloadResult>>,
    /// Until somebody takes it.
    receiver: Mutex<Option<ReloadReceiver>>,
}

/// What is asked for, as it comes in.
pub type ReloadReceiver = mpsc::Receiver<oneshot::Sender<ReloadResult>>;

/// What became of the rules and the certificate.
#[derive(Clone, Debug)]
pub struct ReloadResult {
    /// Of the rules.
    pub rules: Reload,
    /// Of the certificate.
    pub certificate: CertificateReload,
}

/// Nobody reads files any more: the server is about to stop, or, by a bug, what reads them has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadUnavailable;

impl ReloadHandle {
    /// With nobody to answer yet.
    pub fn new() -> Self {
        let (ask, asked) = mpsc::channel(PENDING_RELOADS_MAX);
        Self { sender: ask, receiver: Mutex::new(Some(asked)) }
    }

    /// Reads the files at once, and says what became of it.
    pub async fn reload(&self) -> Result<ReloadResult, ReloadUnavailable> {
        let (answer, answered) = oneshot::channel();
        self.sender.send(answer).await.map_err(|_| ReloadUnavailable)?;
        answered.await.map_err(|_| ReloadUnavailable)
    }

    /// What is asked for, for the one who answers. The second time there is none.
    pub fn take_receiver(&self) -> Option<ReloadReceiver> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Default for ReloadHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for ReloadUnavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "files are not read any more (hint: the server is about to stop; if it is not, `/healthz?verbose` says what \
             has ended)",
        )
    }
}

impl std::error::Error for ReloadUnavailable {}
