//! A server that refuses writes: it is out of memory (`noeviction`), cannot save to disk, or has too few replicas.
//!
//! Its counters can still be read. So its breaker stays closed, and the [batcher](crate::redis::batcher) asks it
//! again without writes: it can deny a request, but not admit one.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use redis::Pipeline;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::backoff::PROBE_PAUSE;
use super::event::StoreEvent;
use super::multiplexed::Connection;
use super::probe::{ConnectTimeouts, probe_command};
use super::reply::{CommandReply, RefusalScope};
use super::server::Server;
use super::stats::WriteState;

/// Whether a server refuses writes, as far as is known.
#[derive(Default)]
pub(crate) struct WriteRefusal {
    is_refused: AtomicBool,
    /// Notified when writes are refused.
    refused: Notify,
}

impl WriteRefusal {
    pub fn state(&self) -> WriteState {
        if self.is_refused.load(Relaxed) { WriteState::Refused } else { WriteState::Accepted }
    }
}

impl Server {
    /// The server has refused a write.
    pub(super) fn record_write_refusal(&self, reason: &str) {
        if !self.write_refusal.is_refused.swap(true, Relaxed) {
            self.write_refusal.refused.notify_one();
            let address = self.address().to_string().into();
            self.config.emit(StoreEvent::WritesRefused { address, reason: reason.into() });
        }
    }

    /// Checks in the background whether the server accepts writes again, for the log and for metrics. It never
    /// completes.
    pub(super) async fn check_writes(&self, connection: &Connection) {
        let mut probe = Pipeline::new();
        probe.add_command(probe_command(self));
        let at_most = ConnectTimeouts::Background.total(self.config.timeout);
        loop {
            while self.write_refusal.state() == WriteState::Accepted {
                self.write_refusal.refused.notified().await;
            }
            sleep(PROBE_PAUSE.pick()).await;
            let Ok(Ok(mut replies)) = timeout(at_most, connection.send(&probe)).await else { continue };
            let is_refused = match replies.pop().map(CommandReply::from_value) {
                Some(CommandReply::Refused(refusal)) => refusal.scope == RefusalScope::Writes,
                _ => false,
            };
            if !is_refused {
                self.write_refusal.is_refused.store(false, Relaxed);
                self.config.emit(StoreEvent::WritesAccepted { address: self.address().to_string().into() });
            }
        }
    }
}
