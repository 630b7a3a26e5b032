//! Sentinels know which of several servers is the master.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tidegate_core::Timestamp;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connect_error::{ConnectError, ConnectErrorKind as Kind};
use super::connection::{Connection, closed};
use super::greeting::{Mode, greet, judged, refused, text};
use super::jitter::Between;
use super::means::{Means, Whom};
use super::probe::late;
use crate::redis::ticking::Due;
use crate::redis::url::{Address, Login};

/// Those who know which server is the master.
pub(super) struct Sentinels {
    master: Box<str>,
    login: Option<Login>,
    /// Those that answered last come first.
    addresses: Mutex<Vec<Address>>,
    /// Told when they are to be asked whether the master is still the same, though it answers.
    pub check: Notify,
    check_due: Due,
}

/// How often they are.
const MASTER_CHECKED: Between = Between::millis(5_000..=10_000);

impl Sentinels {
    pub fn new(addresses: Vec<Address>, master: Box<str>, login: Option<Login>) -> Self {
        Self {
            master,
            login,
            addresses: Mutex::new(addresses),
            check: Notify::new(),
            check_due: Due::default(),
        }
    }

    pub fn tick(&self, now: Timestamp) {
        if self.check_due.is_due(now, || MASTER_CHECKED.draw()) {
            self.check.notify_one();
        }
    }

    pub fn first(&self) -> Address {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        // A URL names at least one.
        addresses.first().cloned().unwrap_or(Address { host: "?".into(), port: 0 })
    }

    /// Where the master is, from the first that knows. Each has so long.
    pub async fn master(&self, means: &Means, each: Duration) -> Result<Address, ConnectError> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut trouble: Option<ConnectError> = None;
        for address in addresses {
            let asked = timeout(each, self.ask(means, &address)).await;
            match asked.unwrap_or_else(|_| Err(late(&address, each))) {
                Ok(master) => {
                    self.prefer(&address);
                    return Ok(master);
                }
                // What somebody said is worth more than that somebody else said nothing.
                Err(error) => {
                    if trouble.as_ref().is_none_or(ConnectError::is_passing) {
                        trouble = Some(error);
                    }
                }
            }
        }
        Err(trouble.unwrap_or_else(|| late(&self.first(), each)))
    }

    async fn ask(&self, means: &Means, address: &Address) -> Result<Address, ConnectError> {
        let whom = Whom { address, login: self.login.as_ref(), database: 0 };
        let connection = Connection::open(means, &whom).await?;
        if greet(&connection, &whom).await?.mode != Mode::Sentinel {
            return Err(ConnectError::new(
                Kind::WrongKind,
                address,
                "it is no Sentinel",
                "redis+sentinel:// names Sentinels, by default on port 26379; redis://HOST is for a single server",
            ));
        }
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&*self.master);
        let replies = connection.ask(&pipeline).await.map_err(|error| closed(address, &error))?;
        let reply = judged(replies.into_iter().next()).map_err(|error| refused(address, &error))?;
        read_address(&reply).ok_or_else(|| {
            ConnectError::new(
                Kind::WrongKind,
                address,
                format!("this Sentinel knows no master `{}`", self.master),
                "the name is that in `sentinel monitor NAME ...`; SENTINEL MASTERS lists them",
            )
        })
    }

    fn prefer(&self, address: &Address) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = addresses.iter().position(|one| one == address) {
            addresses[..=place].rotate_right(1);
        }
    }
}

/// A host and a port, or nothing.
fn read_address(reply: &Value) -> Option<Address> {
    let Value::Array(parts) = reply else { return None };
    let [host, port] = parts.as_slice() else { return None };
    Some(Address { host: text(host)?.to_ascii_lowercase().into(), port: text(port)?.parse().ok()? })
}
