//! Requests to reload rules and certificates, from any listener to the reload task.

use std::sync::{Mutex, PoisonError};

use tidegate::rules::Reload;
use tokio::sync::{mpsc, oneshot};

use super::listen::CertificateReload;

/// How many reload requests may be pending. Later ones wait to be queued.
const PENDING_RELOADS_MAX: usize = 16;

/// Sends reload requests to the reload task and returns its results.
pub struct ReloadHandle {
    sender: mpsc::Sender<oneshot::Sender<ReloadResult>>,
    /// `None` after the reload task has taken it.
    receiver: Mutex<Option<ReloadReceiver>>,
}

/// The reload requests, as they arrive.
pub type ReloadReceiver = mpsc::Receiver<oneshot::Sender<ReloadResult>>;

/// The result of a reload.
#[derive(Clone, Debug)]
pub struct ReloadResult {
    /// The result for the rules.
    pub rules: Reload,
    /// The result for the certificate.
    pub certificate: CertificateReload,
}

/// The reload task has ended: the server is stopping, or there is a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadUnavailable;

impl ReloadHandle {
    /// Creates a channel to a reload task that does not run yet.
    pub fn new() -> Self {
        let (sender, receiver) = mpsc::channel(PENDING_RELOADS_MAX);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }

    /// Reloads the files now and returns the result.
    pub async fn reload(&self) -> Result<ReloadResult, ReloadUnavailable> {
        let (answer, answered) = oneshot::channel();
        self.sender.send(answer).await.map_err(|_| ReloadUnavailable)?;
        answered.await.map_err(|_| ReloadUnavailable)
    }

    /// Takes the receiver, for the reload task. `None` if it was taken before.
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
            "the server does not reload files any more (hint: it is stopping; if it is not, `/healthz?verbose` names the \
             task that has ended)",
        )
    }
}

impl std::error::Error for ReloadUnavailable {}
