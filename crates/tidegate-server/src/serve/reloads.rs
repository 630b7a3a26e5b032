//! Asking for rules and certificates to be read again, from wherever that is asked for.

use std::sync::{Mutex, PoisonError};

use tidegate::rules::Reload;
use tokio::sync::{mpsc, oneshot};

use super::listening::CertificateReload;

/// How many may have asked and not been answered yet. Whoever comes after them waits.
const ASKED_MAX: usize = 16;

/// Hands what is asked for to whoever reads files, and what became of it back.
pub struct Reloads {
    ask: mpsc::Sender<oneshot::Sender<Reloaded>>,
    /// Until somebody takes it.
    asked: Mutex<Option<ReloadsAsked>>,
}

/// What is asked for, as it comes in.
pub type ReloadsAsked = mpsc::Receiver<oneshot::Sender<Reloaded>>;

/// What became of the rules and the certificate.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Of the rules.
    pub rules: Reload,
    /// Of the certificate.
    pub certificate: CertificateReload,
}

/// Nobody reads files any more: the server is about to stop, or, by a bug, what reads them has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReloading;

impl Reloads {
    /// With nobody to answer yet.
    pub fn new() -> Self {
        let (ask, asked) = mpsc::channel(ASKED_MAX);
        Self { ask, asked: Mutex::new(Some(asked)) }
    }

    /// Reads the files at once, and says what became of it.
    pub async fn ask(&self) -> Result<Reloaded, NotReloading> {
        let (answer, answered) = oneshot::channel();
        self.ask.send(answer).await.map_err(|_| NotReloading)?;
        answered.await.map_err(|_| NotReloading)
    }

    /// What is asked for, for the one who answers. The second time there is none.
    pub fn take_asked(&self) -> Option<ReloadsAsked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Default for Reloads {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for NotReloading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "files are not read any more (hint: the server is about to stop; if it is not, `/healthz?verbose` says what \
             has ended)",
        )
    }
}

impl std::error::Error for NotReloading {}
