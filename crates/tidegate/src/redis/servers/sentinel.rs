//! Sentinels know which of several servers is the master.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tidegate_core::Timestamp;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::connection::{Connection, closed_error};
use super::greeting::{ServerMode, handshake, into_result, refusal_error, as_text};
use super::jitter::JitterRange;
use super::means::{ClientConfig, Endpoint};
use super::probe::timeout_error;
use crate::redis::tick::PeriodicTimer;
use crate::redis::url::{Address, Login};

/// Those who know which server is the master.
pub(super) struct Sentinels {
    master: Box<str>,
    login: Option<Login>,
    /// Those that answered last come first.
    addresses: Mutex<Vec<Address>>,
    /// Told when they are to be asked whether the master is still the same, though it answers.
    pub master_check: Notify,
    master_check_timer: PeriodicTimer,
}

/// How often they are.
const MASTER_CHECK_INTERVAL: JitterRange = JitterRange::from_millis(5_000..=10_000);

impl Sentinels {
    pub fn new(addresses: Vec<Address>, master: Box<str>, login: Option<Login>) -> Self {
        Self {
            master,
            login,
            addresses: Mutex::new(addresses),
            master_check: Notify::new(),
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

    /// Where the master is, from the first that knows. Each has so long.
    pub async fn query_master(&self, means: &ClientConfig, each: Duration) -> Result<Address, ConnectError> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut trouble: Option<ConnectError> = None;
        for address in addresses {
            let asked = timeout(each, self.query(means, &address)).await;
            match asked.unwrap_or_else(|_| Err(timeout_error(&address, each))) {
                Ok(master) => {
                    self.move_to_front(&address);
                    return Ok(master);
                }
                // What somebody said is worth more than that somebody else said nothing.
                Err(error) => {
                    if trouble.as_ref().is_none_or(ConnectError::is_transient) {
                        trouble = Some(error);
                    }
                }
            }
        }
        Err(trouble.unwrap_or_else(|| timeout_error(&self.first_address(), each)))
    }

    async fn query(&self, means: &ClientConfig, address: &Address) -> Result<Address, ConnectError> {
        let whom = Endpoint { address, login: self.login.as_ref(), database: 0 };
        let connection = Connection::open(means, &whom).await?;
        if handshake(&connection, &whom).await?.mode != ServerMode::Sentinel {
            return Err(ConnectError::new(
                Kind::WrongKind,
                address,
                "it is no Sentinel",
                "redis+sentinel:// names Sentinels, by default on port 26379; redis://HOST is for a single server",
            ));
        }
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&*self.master);
        let replies = connection.send(&pipeline).await.map_err(|error| closed_error(address, &error))?;
        let reply = into_result(replies.into_iter().next()).map_err(|error| refusal_error(address, &error))?;
        parse_address(&reply).ok_or_else(|| {
            ConnectError::new(
                Kind::WrongKind,
                address,
                format!("this Sentinel knows no master `{}`", self.master),
                "the name is that in `sentinel monitor NAME ...`; SENTINEL MASTERS lists them",
            )
        })
    }

    fn move_to_front(&self, address: &Address) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = addresses.iter().position(|one| one == address) {
            addresses[..=place].rotate_right(1);
        }
    }
}

/// A host and a port, or nothing.
fn parse_address(reply: &Value) -> Option<Address> {
    let Value::Array(parts) = reply else { return None };
    let [host, port] = parts.as_slice() else { return None };
    Some(Address { host: as_text(host)?.to_ascii_lowercase().into(), port: as_text(port)?.parse().ok()? })
}
