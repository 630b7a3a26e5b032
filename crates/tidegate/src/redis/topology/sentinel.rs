//! Sentinels, which know the current master.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tidegate_core::Timestamp;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::redis::connection::{
    ClientConfig, ConnectError, ConnectErrorKind as Kind, Connection, Endpoint, JitterRange, ServerMode,
    SubscribeError, SubscriberConnection, as_text, closed_error, handshake, into_result, refusal_error,
    timeout_error,
};
use crate::redis::key_name::KeyName;
use crate::redis::tick::PeriodicTimer;
use crate::redis::url::{Address, Login};

/// The Sentinels of a store.
pub(crate) struct Sentinels {
    master: Box<str>,
    login: Option<Login>,
    /// The one that replied last comes first.
    addresses: Mutex<Vec<Address>>,
    /// Notified when it is time to check whether the connected master is still the master.
    pub master_check: Arc<Notify>,
    master_check_timer: PeriodicTimer,
}

/// How often the master is checked, besides when a Sentinel announces another one.
const MASTER_CHECK_INTERVAL: JitterRange = JitterRange::from_millis(800..=1_000);
/// The channel on which a Sentinel announces another master.
const SWITCH_CHANNEL: &[u8] = b"+switch-master";
/// The pause before another attempt to subscribe.
const SUBSCRIBE_PAUSE: JitterRange = JitterRange::from_millis(1_000..=2_000);
/// The same, if the Sentinel refuses subscriptions.
const SUBSCRIBE_REFUSED_PAUSE: JitterRange = JitterRange::from_millis(30_000..=60_000);

impl Sentinels {
    pub fn new(addresses: Vec<Address>, master: Box<str>, login: Option<Login>) -> Self {
        Self {
            master,
            login,
            addresses: Mutex::new(addresses),
            master_check: Arc::new(Notify::new()),
            master_check_timer: PeriodicTimer::default(),
        }
    }

    pub fn tick(&self, now: Timestamp) {
        if self.master_check_timer.is_due(now, || MASTER_CHECK_INTERVAL.pick()) {
            self.master_check.notify_one();
        }
    }

    pub fn first_address(&self) -> Address {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        // A URL names at least one.
        addresses.first().cloned().unwrap_or(Address { host: "?".into(), port: 0 })
    }

    /// The master, from the first Sentinel that knows it. `each` is the timeout per Sentinel.
    pub async fn query_master(
        &self,
        config: &ClientConfig,
        timeout_each: Duration,
    ) -> Result<Address, ConnectError> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut error_to_report: Option<ConnectError> = None;
        for address in addresses {
            let result = timeout(timeout_each, self.query(config, &address)).await;
            match result.unwrap_or_else(|_| Err(timeout_error(&address, timeout_each))) {
                Ok(master) => {
                    self.move_to_front(&address);
                    return Ok(master);
                }
                // An error that a Sentinel reports is more useful than one that says that another did not
                // reply.
                Err(error) => {
                    if error_to_report.as_ref().is_none_or(ConnectError::is_transient) {
                        error_to_report = Some(error);
                    }
                }
            }
        }
        Err(error_to_report.unwrap_or_else(|| timeout_error(&self.first_address(), timeout_each)))
    }

    /// Notifies `master_check` when a Sentinel announces another master. It never completes. Without permission to
    /// subscribe, the master is only checked at intervals.
    pub async fn watch_switches(&self, config: &ClientConfig, timeout_each: Duration) {
        loop {
            let mut pause = SUBSCRIBE_PAUSE;
            let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for address in &addresses {
                match timeout(timeout_each, self.subscribe(config, address)).await {
                    Ok(Ok(subscriber)) => {
                        // An announcement from before the subscription is lost.
                        self.master_check.notify_one();
                        subscriber.until_broken().await;
                        break;
                    }
                    Ok(Err(SubscribeError::Forbidden)) => pause = SUBSCRIBE_REFUSED_PAUSE,
                    Ok(Err(SubscribeError::Broken)) | Err(_) => {}
                }
            }
            sleep(pause.pick()).await;
        }
    }

    async fn subscribe(
        &self,
        config: &ClientConfig,
        address: &Address,
    ) -> Result<SubscriberConnection, SubscribeError> {
        let master_check = self.master_check.clone();
        let on_message = move |_: &[u8]| master_check.notify_one();
        let subscriber = SubscriberConnection::open(config, &self.endpoint(address), on_message).await?;
        subscriber.subscribe(&[KeyName::from_slice(SWITCH_CHANNEL)]).await?;
        Ok(subscriber)
    }

    fn endpoint<'a>(&'a self, address: &'a Address) -> Endpoint<'a> {
        Endpoint { address, login: self.login.as_ref(), database: 0 }
    }

    async fn query(&self, config: &ClientConfig, address: &Address) -> Result<Address, ConnectError> {
        let endpoint = self.endpoint(address);
        let connection = Connection::open(config, &endpoint).await?;
        if handshake(&connection, &endpoint).await?.mode != ServerMode::Sentinel {
            return Err(ConnectError::new(
                Kind::WrongKind,
                address,
                "it is no Sentinel",
                "redis+sentinel:// names Sentinels, by default on port 26379; use redis://HOST for a single server",
            ));
        }
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&*self.master);
        let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
        let reply =
            into_result(replies.into_iter().next()).map_err(|error| refusal_error(address, &error))?;
        parse_address(&reply).ok_or_else(|| {
            ConnectError::new(
                Kind::WrongKind,
                address,
                format!("this Sentinel does not know the master `{}`", self.master),
                "use the name in `sentinel monitor NAME ...`; SENTINEL MASTERS lists them",
            )
        })
    }

    fn move_to_front(&self, address: &Address) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = addresses.iter().position(|listed| listed == address) {
            addresses[..=index].rotate_right(1);
        }
    }
}

/// Parses a host and a port; none if the reply is nil.
fn parse_address(reply: &Value) -> Option<Address> {
    let Value::Array(parts) = reply else { return None };
    let [host, port] = parts.as_slice() else { return None };
    Some(Address { host: as_text(host)?.to_ascii_lowercase().into(), port: as_text(port)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::{Sentinels, Timestamp};

    #[test]
    fn the_master_is_checked_every_second() {
        const TICK_MS: u64 = 200;
        const TICKS: u64 = 50;
        let sentinels = Sentinels::new(Vec::new(), "the-master".into(), None);
        let mut context = Context::from_waker(Waker::noop());
        let mut is_checked = |tick: &u64| {
            sentinels.tick(Timestamp::from_nanos(tick * TICK_MS * 1_000_000));
            pin!(sentinels.master_check.notified()).poll(&mut context).is_ready()
        };
        let checks = (1..=TICKS).filter(&mut is_checked).count();
        assert!(checks as u64 >= TICKS * TICK_MS / 1_200, "{checks} checks in 10 s");
    }
}
